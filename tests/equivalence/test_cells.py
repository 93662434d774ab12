"""However many cells a query is spread over, the same changes come out at the same instants."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.api.options import Options
from penstock.partitioning.stages import Stages, stages, two_stages
from penstock.plan.catalog import Catalog
from penstock.plan.query_root import Root
from penstock.testing.local_cells import Cells
from tests.equivalence.compare import difference
from tests.oracle import case as cases
from tests.oracle.case import Case
from tests.oracle.check import Mismatch, same
from tests.oracle.trace import Cut, Trace, record

CASES = int(os.environ.get("PENSTOCK_CASES", "600")) // 4
BLOCK = 20


def told(case: Case, one: Trace, other: Trace) -> str:
    """How two traces differ, in changes or in snapshots; empty if they do not."""
    for index, query in enumerate(case.queries):
        first, second = one.queries[index], other.queries[index]
        if first.pattern != second.pattern:
            return f"query {index} is {first.pattern} and {second.pattern}"
        for clock, rows in first.snapshots.items():
            if not same(rows, second.snapshots[clock], query.types):
                return (
                    f"query {index}, snapshot at {clock}:\n  one   {rows}\n  other {second.snapshots[clock]}"
                )
    return difference(case, one, other)


@dataclass
class Maker:
    """Makes cells and remembers how queries were placed."""

    cells: int
    nets: bool = True
    placing: Callable[..., Stages] = stages
    options: dict[str, Any] = field(default_factory=dict)
    made: list[Cells] = field(default_factory=list)

    def __call__(self, catalog: Catalog) -> Cells:
        told = Options(**self.options)
        made = Cells(
            catalog,
            self.cells,
            nets=self.nets,
            placing=self.placing,
            upkeep=told.upkeep,
            policies=told.policies,
        )
        assert all(engine.policies == told.policies for engine in made.engines)
        self.made.append(made)
        return made

    def placements(self) -> list[Stages]:
        return [q.stages for cells in self.made for q in cells.queries.values()]


def hold(seed: int, makers: list[Maker]) -> None:
    case = cases.make(seed)
    one = record(case, Cut("random", seed))
    for maker in makers:
        found = told(case, one, record(case, Cut("random", seed), engine=maker))
        if found:
            placed = "\n".join(str(q.stages) for q in maker.made[-1].queries.values())
            what = f"{maker.cells} cells differ from one engine\n{found}\n{placed}"
            pytest.fail(str(Mismatch(what, case)), pytrace=False)


@pytest.mark.parametrize("first", range(80_000, 80_000 + CASES, BLOCK))
def test_cells_say_together_what_one_engine_says(first: int) -> None:
    """Every case with two numbers of cells; with four, in turn, changes are netted or equal rows are together."""
    alone = Maker(1, options={"join": "eddy", "routing": "worst"})
    several = [
        Maker(2, options={"join": "eddy", "routing": "random", "seed": first}),
        Maker(6, options={"share": False, "join": "tree", "tree": "bushy"}),
        Maker(4),
        Maker(4, nets=False, options={"join": "mjoin", "routing": "tickets"}),
    ]
    for seed in range(first, first + BLOCK):
        turn = seed % 4
        hold(seed, [several[turn], several[2] if turn < 2 else alone])
    assert not any(p.is_spread for p in alone.placements())
    placed = [p for maker in several for p in maker.placements()]
    share = sum(p.is_spread for p in placed) / len(placed)
    twice = sum(bool(p.lower) for p in placed) / len(placed)
    print(f"of {len(placed)} placements {share:.0%} use several cells, {twice:.0%} have two stages")
    assert share > 0.6  # 0.92 over five hundred cases
    assert twice > 0.15  # 0.35


def cut_anywhere(root: Root, cells: int, name: str, **how: Any) -> Stages:
    """Cut where it can be done, whether or not that is worth it."""
    found = list(two_stages(root, cells, name, **how))
    return random.Random(str(root)).choice(found) if found else stages(root, cells, name, **how)


@pytest.mark.parametrize("first", range(90_000, 90_000 + CASES, BLOCK))
def test_a_plan_may_be_cut_anywhere(first: int) -> None:
    makers = [
        Maker(3, placing=cut_anywhere),
        Maker(
            4,
            nets=False,
            placing=cut_anywhere,
            options={"join": "tree", "tree": "right-deep", "demand": "doe"},
        ),
        Maker(3, placing=cut_anywhere, options={"expiry": "negative"}),
        Maker(2, nets=False, placing=cut_anywhere, options={"expiry": "direct", "eager": 2}),
        Maker(3, nets=False, placing=cut_anywhere, options={"expiry": "hybrid"}),
    ]
    for seed in range(first, first + BLOCK):
        hold(seed, [makers[seed % 5]])
    placed = [p for maker in makers for p in maker.placements()]
    share = sum(bool(p.lower) for p in placed) / len(placed)
    print(f"{share:.0%} of {len(placed)} placements have two stages")
    assert share > 0.2  # 0.55 over five hundred cases
