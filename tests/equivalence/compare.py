"""Compares two traces of one case: per query and instant, the multisets of changes."""

from __future__ import annotations

from collections import Counter

from tests.oracle.case import Case
from tests.oracle.check import by_moment, same
from tests.oracle.trace import Trace


def difference(case: Case, one: Trace, other: Trace) -> str:
    """The first instant at which the traces differ, in words; empty if they do not."""
    if one.late != other.late:
        return f"late rows: {one.late} and {other.late}"
    for index, query in enumerate(case.queries):
        left, right = one.queries[index].changes, other.queries[index].changes
        if Counter(left) == Counter(right):
            continue
        first, second = ([(c.op, c.ts, c.exp, c.row) for c in said] for said in (left, right))
        one_by, other_by = by_moment(first), by_moment(second)
        for moment in sorted({*one_by, *other_by}, key=lambda m: (m[1], m[0], m[2] or 0)):
            a, b = one_by.get(moment, []), other_by.get(moment, [])
            if not same(a, b, query.types):
                return f"query {index}, '{moment[0]}' at {moment[1]} until {moment[2]}:\n  one   {a}\n  other {b}"
    return ""
