"""The oracle checked on itself: DuckDB against the twin, the judge on true and spoiled traces, coverage."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.oracle import case as cases
from tests.oracle import features
from tests.oracle.algebra import ToStream, is_grouped, key_positions
from tests.oracle.case import Case
from tests.oracle.check import Mismatch, judge, moments, same
from tests.oracle.coverage import EXPECTED, counted
from tests.oracle.duck import Oracle
from tests.oracle.ideal import perfect
from tests.oracle.shrink import smallest
from tests.oracle.streams import Arrival, cut
from tests.oracle.trace import Trace
from tests.oracle.twin import answer

SEEDS = range(600)


@pytest.mark.parametrize("block", range(8))
def test_duckdb_and_the_twin_agree(block: int) -> None:
    compared = 0
    for seed in range(1000 + block * 40, 1000 + block * 40 + 40):
        case = cases.make(seed)
        world = case.world()
        oracle = Oracle(world)
        for index, query in enumerate(case.queries):
            relation = query.query if isinstance(query, ToStream) else query
            since = world.registered[index]
            taus = sorted(moments(relation, world, since, world.clock))
            taus = sorted(random.Random(seed).sample(taus, min(len(taus), 6)))
            for tau, rows in oracle.answers(relation, since, taus).items():
                expected = answer(world, relation, since, tau)
                assert same(expected, rows, relation.types), (seed, index, tau, expected, rows)
                compared += 1
    assert compared > 150


def plain(seed: int) -> Case | None:
    """A case the stand-in can play: keys, if any, are selected, and ends are known or may be sent."""
    case = cases.make(seed)
    if any(is_grouped(q) and key_positions(q) is None for q in case.queries):
        return None
    said = perfect(case).queries
    return (
        case
        if all(h.pattern in ("STRICT", "MONOTONIC") or all(c.op == "+" for c in h.changes) for h in said)
        else None
    )


def judge_often(case: Case, trace: Trace) -> None:
    """The judge looks at a sample of instants: let it look at several."""
    for attempt in range(30):
        judge(replace(case, seed=attempt), trace)


@pytest.mark.parametrize("block", range(4))
def test_the_judge_accepts_the_truth_and_nothing_less(block: int) -> None:
    spoiled = 0
    for seed in range(2000 + block * 40, 2000 + block * 40 + 40):
        case = plain(seed)
        if case is None:
            continue
        trace = perfect(case)
        judge(case, trace)
        heard = next((h for h in trace.queries if h.changes), None)
        if heard is None:
            continue
        added = [i for i, c in enumerate(heard.changes) if c.op == "+"]
        heard.changes.pop(random.Random(seed).choice(added))
        heard.calls = [(heard.calls[0][0], len(heard.changes))]
        heard.snapshots.clear()
        with pytest.raises(Mismatch):
            judge_often(case, trace)
        spoiled += 1
    assert spoiled > 5


def test_a_cut_keeps_the_arrivals() -> None:
    case = cases.make(5)
    rows = [e for e in case.events if isinstance(e, Arrival)]
    for rng, single in ((None, False), (random.Random(1), False), (None, True)):
        flat = [a for part in cut(case.events, rng, single) if isinstance(part, list) for a in part]
        assert flat == rows


def test_shrinking_keeps_what_fails() -> None:
    case = cases.make(11)

    def fails(c: Case) -> bool:
        return sum(isinstance(e, Arrival) and e.row[0] is not None for e in c.events) >= 3

    small = smallest(case, fails, seconds=5)
    assert fails(small)
    assert sum(isinstance(e, Arrival) for e in small.events) == 3


@pytest.mark.parametrize("name", ["join", "sets", "groups", "rows", "streams", "nrr"])
def test_only_enabled_constructs_are_drawn(name: str) -> None:
    enabled = features.CORE | features.expand(name)
    for seed in range(60):
        used = set(+cases.make(seed, enabled).constructs()) & features.ALL
        assert used <= enabled, (seed, used - enabled)


def test_every_construct_is_drawn() -> None:
    seen = counted(SEEDS)
    rare = {name: seen[name] for name in sorted(EXPECTED) if seen[name] < 5}
    assert not rare, f"drawn too rarely in {len(SEEDS)} cases: {rare}"
