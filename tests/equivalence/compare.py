"""Compares two traces of one case: per query and instant, the multisets of changes."""

from __future__ import annotations

from collections import Counter

from tests.oracle.case import Case
from tests.oracle.check import by_moment, same
from tests.oracle.replay import Change
from tests.oracle.trace import Trace


def difference(case: Case, one: Trace, other: Trace) -> str:
    """The first instant at which the traces differ, in words; empty if they do not."""
    if one.late != other.late:
        return f"late rows: {one.late} and {other.late}"
    for index, query in enumerate(case.queries):
        told = unlike(one.queries[index].changes, other.queries[index].changes, query.types)
        if told:
            return f"query {index}, {told}"
    return ""


def unlike(left: list[Change], right: list[Change], types: tuple[str, ...]) -> str:
    """The first instant at which two lists of changes differ, in words; empty if they do not."""
    if Counter(left) == Counter(right):
        return ""
    one, other = (by_moment([(c.op, c.ts, c.exp, c.row) for c in said]) for said in (left, right))
    for moment in sorted({*one, *other}, key=lambda m: (m[1], m[0], m[2] or 0)):
        a, b = one.get(moment, []), other.get(moment, [])
        if not same(a, b, types):
            return f"'{moment[0]}' at {moment[1]} until {moment[2]}:\n  one   {a}\n  other {b}"
    return ""
