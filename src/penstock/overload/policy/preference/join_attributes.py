"""The join attributes of a core: keys of inputs that must be equal in every result.

A *side* is an index of an input; sides that some join compares are of one attribute, and so are those that hang together by others. In a
result all of them have the same value, so what is known of the value on one side is known on all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.overload.operator_queues import Routes
from penstock.overload.queued_operator import Stop

Side = tuple[int, int]
"""Of an input its so-many-th index."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """`sides`: by input, its indexes that are of the attribute."""

    number: int
    sides: Mapping[int, int]


def attributes(core: Routes) -> tuple[tuple[Attribute, ...], dict[tuple[int, int], int]]:
    """The attributes by which streams are joined; and of each join, by route and place, the number of its attribute."""
    joined = [(stop, core.sides(stop)) for stop in core.stops if stop.partner >= 0]
    group: dict[Side, int] = {}
    for _, sides in joined:
        known = [group[side] for side in sides if side in group]
        number = min(known, default=len(group))
        for side in (*(s for s, g in group.items() if g in known), *sides):
            group[side] = number
    numbers = sorted(set(group.values()))
    made = tuple(
        Attribute(n, {i: k for (i, k), g in sorted(group.items()) if g == one})
        for n, one in enumerate(numbers)
    )
    return made, {(stop.route, stop.at): numbers.index(group[sides[0]]) for stop, sides in joined}


def runs(route: Sequence[Stop], of: Mapping[tuple[int, int], int]) -> dict[int, int]:
    """By place: the number of its run, consecutive joins by the same attribute."""
    found: dict[int, int] = {}
    last, number = -1, -1
    for stop in route:
        attribute = of.get((stop.route, stop.at), -1)
        if attribute < 0 or attribute != last:
            number += 1
        last = attribute
        if attribute >= 0:
            found[stop.at] = number
    return found
