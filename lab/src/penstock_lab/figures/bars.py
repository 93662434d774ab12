"""What is asked of the executions, as numbers with limits. Each function takes a figure's data and gives points.

Those of `bars` decide whether a figure's claim holds. Those of the paper say how near its own words are; they are printed, and
decide nothing: the paper's NT and DIRECT are linked lists in Java, and ours are arrays.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock_lab.benchmarks.points import Point
from penstock_lab.figures.data import BATCHED, Data
from penstock_lab.figures.runner import Measure

RIVALS = ("NT", "DIRECT")
SLOWER, FASTER = 1.05, 1.5
CHOSEN = 1.10
"""How much slower an automatic choice may be than the best of those made by hand."""


def weak(data: Data) -> list[Point]:
    """Queries without negation: fewer visits than both, never slower than either."""
    upa = data.last("UPA").visits_per_tuple
    better, worse = sorted(data.last(name).visits_per_tuple for name in RIVALS)
    return [
        at_least("tuple visits, the better of NT and DIRECT against UPA", better / upa, 2),
        at_least("tuple visits, the other against UPA", worse / upa, 10),
        *(never_slower(data, RIVALS, SLOWER, setting) for setting in ("", BATCHED)),
    ]


def by_source(data: Data) -> list[Point]:
    """The same, and a cost that does not grow with the window."""
    growth = [
        at_most(
            f"CPU time of UPA, largest window against smallest{setting}",
            data.last(f"UPA{setting}").median / data.line(f"UPA{setting}")[0].median,
            1.5,
        )
        for setting in ("", BATCHED)
    ]
    return [*weak(data), *growth]


def faster(data: Data) -> list[Point]:
    """Asked of at least two of Queries 1, 2 and 4; shown with each."""
    return [
        at_least(
            f"CPU time, the better of NT and DIRECT against UPA{setting}", gain(data, RIVALS, setting), FASTER
        )
        for setting in ("", BATCHED)
    ]


def small_state(data: Data) -> list[Point]:
    """Query 2 by source: what δ* keeps is in proportion to its output."""
    return [at_least("operator state, the smaller of NT and DIRECT against UPA", state_ratio(data)[-1], 25)]


def smaller_state(data: Data) -> list[Point]:
    return [
        at_least(
            "operator state, the smaller of NT and DIRECT against UPA, worst window",
            min(state_ratio(data)),
            1,
        )
    ]


def automatic(data: Data) -> list[Point]:
    """Queries with negation: the automatic choice against every fixed one."""
    fixed = [s.name for s in data.series if s.eager is not None and s.name != "UPA"]
    return [never_slower(data, fixed, CHOSEN, setting) for setting in ("", BATCHED)]


def never_slower(data: Data, rivals: Sequence[str], limit: float, setting: str) -> Point:
    """UPA against whichever rival is fastest, where that is worst."""
    worst, window, with_reading = 0.0, 0, 0.0
    for name in rivals:
        for mine, theirs in zip(data.line(f"UPA{setting}"), data.line(f"{name}{setting}"), strict=True):
            if mine.against(theirs) > worst:
                worst, window = mine.against(theirs), mine.window
                with_reading = mine.against(theirs, reading=True)
    than = "the better of NT and DIRECT" if tuple(rivals) == RIVALS else f"the best of {', '.join(rivals)}"
    more: dict[str, float | bool] = {"window": window, "with_reading": with_reading}
    return Point(f"CPU time of UPA against {than}, worst window{setting}", worst, limit, "×", more=more)


def gain(data: Data, rivals: Sequence[str], setting: str = "", upa: str = "UPA") -> float:
    """How many times less CPU time than the best of the rivals, at the largest window."""
    mine = data.last(f"{upa}{setting}")
    return min(data.last(f"{name}{setting}").against(mine) for name in rivals)


def state_ratio(data: Data) -> list[float]:
    """The smaller state of NT and DIRECT against that of UPA, window by window."""
    lines = zip(*(data.line(name) for name in (*RIVALS, "UPA")), strict=True)
    return [min(n.state_bytes, d.state_bytes) / u.state_bytes for n, d, u in lines]


def all_ratio(n: Measure, u: Measure) -> float:
    """State and kept answer together."""
    return (n.state_bytes + n.answer_bytes) / (u.state_bytes + u.answer_bytes)


def at_least(name: str, value: float, limit: float) -> Point:
    return Point(name, value, limit, "×", at_least=True)


def at_most(name: str, value: float, limit: float) -> Point:
    return Point(name, value, limit, "×")
