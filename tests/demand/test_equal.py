"""A tree of joins gives the same changes as a join without one: any shape, any demand, any cut of the rows."""

from __future__ import annotations

import os
import random

import pytest

from penstock.api.session import Session
from penstock.operators.join.tree_join import TreeJoin
from tests.demand.campaign import tried
from tests.demand.drawn import GRAPHS, answers, make, trees

CASES = int(os.environ.get("PENSTOCK_CASES", "600")) // 10
BLOCK = 20


def joins(session: Session) -> list[TreeJoin]:
    return [
        operator
        for tail in session.engine.tails.values()
        for operator, _ in tail.pipeline.stages
        if isinstance(operator, TreeJoin)
    ]


@pytest.mark.parametrize("first", range(500_000, 500_000 + CASES, BLOCK))
def test_drawn_joins(first: int) -> None:
    assert [told for seed in range(first, first + BLOCK) if (told := tried(seed))] == []


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("sources", range(3, 9))
def test_every_graph_and_number_of_sources(graph: str, sources: int) -> None:
    """All three demands and every named shape, on the same rows."""
    case = make(900_000 + sources, sources, graph)
    plain, _ = answers(case, None, join="mjoin", share=False)
    rng = random.Random(f"{graph} {sources}")
    # Where inputs that are not compared stand side by side, their partial results multiply.
    connected = graph in ("clique", "shared") or sources < 5
    shapes = ["left-deep", "right-deep", "bushy"] if connected else [trees(rng, case) for _ in range(3)]
    for demand in ("off", "doe", "jit"):
        for shape in shapes:
            found, session = answers(case, rng.choice((5, 50)), join="tree", demand=demand, tree=shape)
            assert found == plain, f"{case}, {demand}, {shape}"
            assert len(joins(session)) == 1


@pytest.mark.parametrize("demand", ["off", "doe", "jit"])
def test_nothing_is_left_when_windows_have_passed(demand: str) -> None:
    """No partial result, no row set aside, no key that is waited for."""
    seen = 0
    for seed in range(910_000, 910_030):
        case = make(seed)
        if None in case.windows:
            continue
        _, session = answers(case, 40, join="tree", demand=demand, tree=trees(random.Random(seed), case))
        (join,) = joins(session)
        counted = join.counted()
        assert {counted[what] for what in ("partials", "blacklist", "buffer")} == {0}
        assert not any(holding.rows for holding in join.holdings())
        seen += counted["suppressed"] + counted["suspended"]
    assert (seen > 0) == (demand != "off")
