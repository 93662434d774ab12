"""Probes that meet one level at a time: every result once, the best first (Works 2013, chapter 7)."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from penstock.kernels.join import tiered_chains
from penstock.overload import probe_passes
from penstock.state.arena import Arena
from penstock.state.priority_queue import BACK_BURNER, LEVEL
from penstock.state.priority_stem import Stock
from tests.overload.probing import Busy, Case, truth

CASES = int(os.environ.get("PENSTOCK_CASES", "600")) // 20
BLOCK = 5


@pytest.mark.parametrize("first", range(0, CASES, BLOCK))
def test_probes_are_interrupted_anywhere_and_nothing_is_lost_or_said_twice(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Budgets of nothing, a unit, a few; other ranks while it runs; restarts."""
    for seed in range(first, first + BLOCK):
        case, drawn = Case(seed), random.Random(seed)
        monkeypatch.setattr(probe_passes, "FEW", drawn.choice((0, 0, 0, 1, 3)))
        budget = drawn.choice((0, 1, 3, 10, 40, 100, 200))
        path = tmp_path / "state" if drawn.random() < 0.4 else None
        assert Busy(case, seed, path, budget=budget).run().heard == truth(case), f"{seed}: {case.plain}"


# ---------------------------------------------------------------------- passes over one stock


class Twin:
    """Built rows in a list, every question answered by looking at all of them."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, int]] = {}

    def eligible(self, probe: dict[str, int]) -> list[tuple[int, int]]:
        """(level, slot) of all partners."""
        return sorted(
            (row["tier"], slot)
            for slot, row in self.rows.items()
            if row["key"] == probe["key"]
            and row["built"] < probe["seq"]
            and row["exp"] > probe["since"]
            and row["ts"] < probe["until"]
        )


def one_pass(stock: Stock, probe: dict[str, int], first: int, depth: int, few: int) -> tuple[list[int], int]:
    """The slots it meets, and the next level."""
    index, found, beyond = stock.indexes[0], np.empty(512, np.int32), np.zeros(1, np.int64)
    given = {k: np.array([v]) for k, v in {**probe, "first": first, "depth": depth}.items()}
    done, n = tiered_chains.probe(
        given["key"], given["since"], given["until"], given["seq"], given["first"], given["depth"], few, 0, stock.tiers,
        stock.over, index.key, index.tier, index.head, index.chain, stock.ts, stock.exp, stock.built,
        np.empty(512, np.int32), found, beyond, np.zeros(1, np.int64),
    )  # fmt: skip
    assert done == 1
    return sorted(found[:n].tolist()), int(beyond[0])


@pytest.mark.parametrize("seed", range(12))
def test_passes_meet_what_a_naive_twin_meets_however_rows_come_and_go_in_between(seed: int) -> None:
    drawn = random.Random(seed)
    stock, twin = Stock(Arena(), "stock", [], 1), Twin()
    inside: list[tuple[dict[str, int], int, list[int], list[int]]] = []
    numbers = clock = 0
    for _ in range(120):
        clock += drawn.randrange(4)
        n = drawn.randrange(10)
        ts = np.array([clock - drawn.choice((0, 0, 9)) for _ in range(n)], np.int64)
        slots = stock.add((), ts, ts + [drawn.randrange(1, 60) for _ in range(n)], 0, BACK_BURNER)
        stock.level[slots] = [drawn.choice((1, 2, 3, BACK_BURNER)) for _ in range(n)]
        keys = np.array([drawn.randrange(3) for _ in range(n)], np.int64)
        stock.set_keys(slots, [keys])
        known = drawn.random() < 0.8
        stock.build(slots, np.arange(numbers, numbers + n), assessed=known)
        for i, slot in enumerate(slots.tolist()):
            level = int(stock.level[slot])
            twin.rows[slot] = {
                "key": int(keys[i]), "built": numbers + i, "ts": int(ts[i]), "exp": int(stock.exp[slot]),
                "tier": level if known or level < BACK_BURNER else 0,
            }  # fmt: skip
        numbers += n
        stock.level[slots] = drawn.choice((1, BACK_BURNER))  # what becomes known later changes no tier
        since = clock - drawn.choice((0, 0, 5))
        probe = {
            "key": drawn.randrange(3),
            "since": since,
            "until": since + drawn.randrange(1, 20),
            "seq": numbers,
        }
        inside.append((probe, 0, [], [slot for _, slot in twin.eligible(probe)]))
        still = []
        for probe, first, met, wanted in inside:
            if drawn.random() < 0.7:
                still.append((probe, first, met, wanted))
                continue
            depth = drawn.choice((max(first, 1), max(first, 2), BACK_BURNER))
            few = drawn.choice((0, 0, 2, 10))
            found, beyond = one_pass(stock, probe, first, depth, few)
            left = [(level, slot) for level, slot in twin.eligible(probe) if level >= first]
            now = [(level, slot) for level, slot in left if level <= depth]
            if len(now) == len(left) or beyond == 0:
                assert (found, beyond) == (sorted(slot for _, slot in left), 0)
                assert sorted([*met, *found]) == sorted(wanted), "once all passes are made"
            else:
                assert found == sorted(slot for _, slot in now)
                assert beyond == min(level for level, _ in left if level > depth)
                still.append((probe, beyond, [*met, *found], wanted))
        inside = still
        met_from = min([clock + 1, *(probe["since"] for probe, *_ in inside)])
        stock.purge(met_from, met_from, clock + 1)
        twin.rows = {slot: row for slot, row in twin.rows.items() if row["exp"] > met_from}
        assert sorted(twin.rows) == sorted(stock.stored().tolist()), "who is over goes, who may be met stays"
    assert stock.pool.capacity > 64, "tables have grown on the way"


# ---------------------------------------------------------------------- a query

STREAMS = "".join(
    f"CREATE STREAM {name} (ts BIGINT, k INT, x INT) WATERMARK ts DELAY OF INTERVAL 0;" for name in "abc"
)
RANKS = "RANK 1 CRITERIA (a.x < 2) RANK 2 CRITERIA (a.x < 6) RANK 3 CRITERIA (a.x < 12)"
JOIN = "SELECT a.k, a.x, b.x AS y FROM a [RANGE 600], b [RANGE 600] WHERE a.k = b.k"


class Burst:
    """Rows of `a` that are joined calmly, then more of `b` than there are units for."""

    def __init__(self, text: str, budget: int, *, atomic: bool = False) -> None:
        self.session = penstock.connect(budget=budget, allocation="prefer")
        self.session.execute(STREAMS)
        self.query = self.session.query(text, name="q")
        self.pipeline: Any = self.session.engine.queries["q"].pipeline
        self.pipeline.scheduler.atomic = atomic
        self.ranks: Counter[int | None] = Counter()
        self.told: list[list[int]] = []
        """The ranks of each busy step's changes; BACK_BURNER for none."""
        self.aside = 0

    def run(self, steps: int = 20) -> Burst:
        drawn = random.Random(5)
        for step in range(steps):
            for name, calm, burst in (("a", 20, 20), ("b", 4, 60), ("c", 1, 1)):
                n = calm if step < 6 else burst
                times = sorted(drawn.randrange(100 * step, 100 * step + 100) for _ in range(n))
                rows = [{"ts": t, "k": drawn.randrange(2), "x": drawn.randrange(40)} for t in times]
                self.session.push(name, rows)
            self.session.advance(100 * step + 99)
            self.hear()
            self.aside += sum(len(lane) for stop in self.stops for lane in stop.aside.values())
        return self

    @property
    def stops(self) -> list[Any]:
        return [stop for core in self.pipeline.scheduler.cores for stop in core.stops]

    def hear(self) -> None:
        ranks = self.query.changes()["__rank"].to_pylist()
        self.ranks.update(ranks)
        if self.pipeline.busy:
            self.told.append([BACK_BURNER if rank is None else rank for rank in ranks])


def orders(run: Burst) -> list[list[int]]:
    """The levels of results in the order in which they are made, step by step."""
    steps: list[list[int]] = []
    run.pipeline.scheduler.made = lambda _, rows: steps[-1].extend(rows[LEVEL].tolist())
    run.pipeline.allocation.admitted = lambda arrived, moment, real=run.pipeline.allocation.admitted: (
        steps.append([]) or real(arrived, moment)
    )
    run.run()
    return steps


def test_results_of_a_step_are_made_in_order_of_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_passes, "FEW", 0)
    run = Burst(f"{JOIN} {RANKS}", 2500)
    made = orders(run)
    # Before levels are active, and of rows that nobody had asked for their level by then, nothing is known.
    settled = [levels for levels in made if levels][-6:]
    assert all(levels == sorted(levels) for levels in settled), settled
    assert {1, 2, 3} <= {level for levels in settled for level in levels}
    atomic = [levels for levels in orders(Burst(f"{JOIN} {RANKS}", 2500, atomic=True)) if levels][-6:]
    assert any(levels != sorted(levels) for levels in atomic), "whole probes make whatever they meet"
    assert run.aside > 0


def test_a_step_says_its_results_in_order_of_rank() -> None:
    run = Burst(f"{JOIN} LIFESPAN 2700 MICROSECONDS {RANKS}", 900).run()
    assert all(ranks == sorted(ranks) for ranks in run.told), "also before levels are active"
    assert any(len(set(ranks)) > 1 for ranks in run.told)


def test_a_burst_of_probes_makes_more_of_the_best_results() -> None:
    """They meet a window full of rows that hardly matter."""
    text = f"{JOIN} LIFESPAN 1800 MICROSECONDS {RANKS}"
    atomic, passing = (Burst(text, 600, atomic=atomic).run() for atomic in (True, False))
    assert passing.ranks[1] > 1.3 * atomic.ranks[1]


def test_what_waits_in_process_obeys_the_lifespan_and_is_counted_by_what_it_waited_for() -> None:
    run = Burst(f"{JOIN} LIFESPAN 2700 MICROSECONDS {RANKS}", 900).run()
    told = {one["rank"]: one["expired_at"] for one in run.query.load["ranks"]}
    assert told[2]["input 2: join with input 1"] > 0, "rows of b that had met rank 1"
    whole = Burst(f"{JOIN} {RANKS}", 900).run()
    whole.session.drain()
    whole.hear()
    assert run.ranks < whole.ranks
    truth = Burst(f"{JOIN} {RANKS}", 10**9).run()
    assert whole.ranks == truth.ranks


def test_partial_results_of_passes_go_on_by_the_better_level() -> None:
    """With a third stream behind: what meets rank 1 is finished before the rest is begun."""
    text = "SELECT a.k, a.x, b.x AS y FROM a [RANGE 600], b [RANGE 600], c [RANGE 600] WHERE a.k = b.k AND b.k = c.k"
    ranks = {}
    for atomic in (True, False):
        run = Burst(f"{text} {RANKS}", 600, atomic=atomic).run()
        ranks[atomic] = run.ranks[1]
        run.session.drain()
        run.hear()
        assert run.ranks == Burst(f"{text} {RANKS}", 10**9).run().ranks
    assert ranks[False] > ranks[True]
