"""Compares two traces of one case: per query and instant, the multisets of changes."""

from __future__ import annotations

from collections import Counter

from tests.oracle.case import Case
from tests.oracle.check import same
from tests.oracle.replay import Change
from tests.oracle.trace import Trace

Said = dict[tuple[str, int, int | None], list[Change]]


def difference(case: Case, one: Trace, other: Trace) -> str:
    """The first instant at which the traces differ, in words; empty if they do not."""
    if one.late != other.late:
        return f"late rows: {one.late} and {other.late}"
    for index, query in enumerate(case.queries):
        left, right = one.queries[index].changes, other.queries[index].changes
        if Counter(left) == Counter(right):
            continue
        first, second = by_moment(left), by_moment(right)
        for moment in sorted({*first, *second}, key=lambda m: (m[1], m[0], m[2] or 0)):
            a, b = first.get(moment, []), second.get(moment, [])
            if not same([c.row for c in a], [c.row for c in b], query.types):
                shown = "\n".join([*(f"  one   {c}" for c in a), *(f"  other {c}" for c in b)])
                return f"query {index} at {moment[1]}:\n{shown}"
    return ""


def by_moment(changes: list[Change]) -> Said:
    found: Said = {}
    for change in changes:
        found.setdefault((change.op, change.ts, change.exp), []).append(change)
    return found
