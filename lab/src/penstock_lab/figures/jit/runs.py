"""One plan, with and without demand, over the same rows: CPU time, partial results, and what is kept at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.operators.join.fifo_join import FifoJoin
from penstock.operators.join.tree_join import TreeJoin
from penstock_lab.benchmarks.runs import now
from penstock_lab.figures.cacq.chart import Data, Sample
from penstock_lab.figures.jit.plans import Setting
from penstock_lab.figures.runner import Connect, Tell

WAYS = {
    "REF": {"join": "tree", "demand": "off"},
    "DOE": {"join": "tree", "demand": "doe"},
    "JIT": {"join": "tree", "demand": "jit"},
    "AUTO": {"join": "auto"},
}
"""The same plan as a tree with more or less demand, and what the engine does by itself: no tree at all."""


ENOUGH, MOST = 1.0, 25
"""CPU seconds that every way is measured for at least, at every x, and turns after which it is enough anyway: some runs take 20 ms, and a
median of three of those says little."""


@dataclass(frozen=True, slots=True)
class Taken:
    """`values`: kept at most, if partial results held those of their parts, as the paper's do; `bytes`: what they are here."""

    seconds: float
    made: int
    visits: int
    values: int
    bytes: int
    results: int


def run(setting: Setting, way: str, probing: str, seconds: int, connect: Connect) -> Taken:
    """Only what the engine does is timed."""
    session: Any = connect(**WAYS[way], tree=setting.shape, probing=probing, share=False, replan=False)
    session.execute(setting.declaration())
    query = session.query(setting.query(), name="q")
    (tail,) = session.engine.tails.values()
    (join,) = (operator for operator, _ in tail.pipeline.stages if isinstance(operator, TreeJoin | FifoJoin))
    took = 0.0
    values = kept = 0
    for clock, tables in setting.pushes(seconds):
        began = now()
        for name, rows in tables.items():
            session.push(name, rows)
        session.advance(clock)
        took += now() - began
        values, kept = max(values, join.held_values), max(kept, join.held_bytes)
    return Taken(took, join.counted()["made"], query.visits, values, kept, query.matched)


def measured(
    settings: Sequence[tuple[float, Setting]],
    probing: str,
    seconds: int,
    turns: int,
    tell: Tell,
    connect: Connect,
) -> Data:
    """By x and way; in a turn all ways run, one after the other, and in the next the other way round: what a run finds in memory is what the one before
    it has left. One turn, or at least so many."""
    for way in WAYS:
        run(settings[0][1], way, probing, min(600, seconds), connect)
    samples = []
    for x, setting in settings:
        taken: dict[str, list[Taken]] = {name: [] for name in WAYS}
        turn = 0
        while turn < turns or (turns > 1 and turn < MOST and _least(taken) < ENOUGH):
            turn += 1
            for name in list(WAYS)[:: 1 if turn % 2 else -1]:
                tell(f"{setting.shape}, {x:g}: {name}, turn {turn}")
                taken[name].append(run(setting, name, probing, seconds, connect))
        assert len({one.results for every in taken.values() for one in every}) == 1, "answers are the same"
        for name, every in taken.items():
            last = every[-1]
            more: dict[str, float | None] = {
                "partial_results": last.made,
                "peak_values": last.values,
                "peak_bytes": last.bytes,
                "visits": last.visits,
                "results": last.results,
            }
            samples.append(Sample(name, x, tuple(one.seconds for one in every), more))
    return Data(samples)


def _least(taken: dict[str, list[Taken]]) -> float:
    """CPU seconds of the way that was measured for the shortest time."""
    return min(sum(one.seconds for one in every) for every in taken.values())
