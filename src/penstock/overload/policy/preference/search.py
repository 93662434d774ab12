"""Which dynamic monitoring levels are active, and where they are looked up: PR-Prune.

Paper      Works 2013, §6.5.5. (PR of §6.5.2 and an exhaustive search, to compare with, are in penstock-lab.)
Order      rank by rank; of a rank the values first that promise most results. Each is looked up where fewest of
           its rows expire, then where that costs least beside what is looked up already; not at all if it
           gains nothing, or if there are no units for it. Greedy: a value that is settled stays as it is.
Pruning    values with hardly any product of frequencies are dropped, and those that some stream of the run has
           no rows with; of consecutive joins by one attribute only the last is designated; values of a level
           are settled together.
Cost       ways × levels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from penstock.overload.policy.preference.model import (
    Level,
    Places,
    Plan,
    Problem,
    judged,
    looked_up,
)

INFERIOR = 0.02
"""A value whose product of frequencies is less than this part of the best of its path and rank is dropped. Other paths are no measure:
results need a row of every stream, also of one whose values are many and each of them rare."""


def pruned(problem: Problem) -> Plan:
    """PR-Prune."""
    small = replace(problem, levels=prune(problem.levels))
    ordered = sorted(small.levels, key=lambda one: (one.rank, -max(one.products, default=0.0)))
    return judged(small, settle(small, ordered), problem)


def prune(levels: Sequence[Level]) -> tuple[Level, ...]:
    """Fewer values, fewer designated operators (§6.5.5)."""
    best: dict[tuple[int, int, int], float] = {}
    for one in levels:
        path = one.route, one.run, one.rank
        best[path] = max([best.get(path, 0.0), *one.products])
    kept = []
    for one in levels:
        least = INFERIOR * best[one.route, one.run, one.rank]
        left = one.only(
            k for k, (product, there) in enumerate(zip(one.products, one.everywhere, strict=True))
            if there and product > 0 and product >= least
        )  # fmt: skip
        if left.values:
            kept.append(left)
    return merged(kept)


def merged(levels: Iterable[Level]) -> tuple[Level, ...]:
    """Of every run the last designated operator alone, for what all of them promise."""
    by_run: dict[tuple[int, int], list[Level]] = {}
    for one in levels:
        by_run.setdefault((one.route, one.run), []).append(one)
    made = []
    for run in by_run.values():
        last = max(one.designated for one in run)
        for rank in sorted({one.rank for one in run}):
            made.append(_united([one for one in run if one.rank == rank], last))
    return tuple(made)


def _united(levels: Sequence[Level], designated: int) -> Level:
    found: dict[int, tuple[float, float]] = {}
    for one in levels:
        for value, significant, promising in zip(one.values, one.significant, one.promising, strict=True):
            before = found.get(value, (0.0, 0.0))
            found[value] = before[0] + significant, max(before[1], promising)
    first = min(one.first for one in levels)
    return replace(
        levels[0],
        designated=designated,
        first=first,
        values=tuple(found),
        significant=tuple(s for s, _ in found.values()),
        promising=tuple(p for _, p in found.values()),
        everywhere=(True,) * len(found),
    )


def settle(problem: Problem, ordered: Iterable[Level]) -> list[tuple[Level, Places]]:
    """One level after the other at its best places, as long as there is capacity."""
    chosen: list[tuple[Level, Places]] = []
    done: set[tuple[int, int, int]] = set()
    cost = 0.0
    for level in ordered:
        late, more, places = min(
            (problem.expiring(level, places), problem.cost(looked_up([(level, places)]) - done), places)
            for places in problem.ways(level)
        )
        if late < problem.expiring(level, None) and cost + more <= problem.capacity:
            chosen.append((level, places))
            done |= looked_up([(level, places)])
            cost += more
    return chosen
