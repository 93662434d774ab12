"""One plan, with and without demand, over the same rows: CPU time, partial results, and what is kept at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.operators.tree_join import TreeJoin
from penstock.surfaces.benches.runs import now
from penstock.surfaces.figures.cacq.chart import Data, Sample
from penstock.surfaces.figures.jit.plans import Setting
from penstock.surfaces.figures.runner import Connect, Tell

DEMANDS = {"REF": "off", "DOE": "doe", "JIT": "jit"}


@dataclass(frozen=True, slots=True)
class Taken:
    """`values`: kept at most, if partial results held those of their parts, as the paper's do; `bytes`: what they are here."""

    seconds: float
    made: int
    visits: int
    values: int
    bytes: int
    results: int


def run(setting: Setting, demand: str, probing: str, seconds: int, connect: Connect) -> Taken:
    """Only what the engine does is timed."""
    session: Any = connect(
        join="tree", tree=setting.shape, demand=demand, probing=probing, share=False, replan=False
    )
    session.execute(setting.declaration())
    query = session.query(setting.query(), name="q")
    (tail,) = session.engine.tails.values()
    (join,) = (operator for operator, _ in tail.pipeline.stages if isinstance(operator, TreeJoin))
    took = 0.0
    values = kept = 0
    for clock, tables in setting.pushes(seconds):
        began = now()
        for name, rows in tables.items():
            session.push(name, rows)
        session.advance(clock)
        took += now() - began
        values, kept = max(values, join.held_values), max(kept, join.held_bytes)
    counted = join.counted()
    return Taken(took, counted["made"], counted["visits"], values, kept, query.matched)


def measured(
    settings: Sequence[tuple[float, Setting]],
    probing: str,
    seconds: int,
    turns: int,
    tell: Tell,
    connect: Connect,
) -> Data:
    """By x and demand; in a turn all demands run, one after the other."""
    for demand in DEMANDS.values():
        run(settings[0][1], demand, probing, min(600, seconds), connect)
    samples = []
    for x, setting in settings:
        taken: dict[str, list[Taken]] = {name: [] for name in DEMANDS}
        for turn in range(turns):
            for name, demand in DEMANDS.items():
                tell(f"{setting.shape}, {x:g}: {name}, turn {turn + 1} of {turns}")
                taken[name].append(run(setting, demand, probing, seconds, connect))
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
