"""allocation="prefer": rows that promise to meet significant ones overtake those that do not, and nothing else changes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.state.priority_queue import BACK_BURNER, DESIGNATED, NEXT, PROMISE
from penstock_lab.searches.preference_basic import basic
from tests.equivalence.test_restarts import Restarts

STREAMS = "".join(
    f"CREATE STREAM {name} (ts BIGINT, k INT, s STRING, g INT, r INT) WATERMARK ts DELAY OF INTERVAL 0;"
    for name in "abc"
)
RANKS = "".join(f" RANK {n} CRITERIA (a.r = {n})" for n in (1, 2))
WINDOWS = "FROM a [RANGE 60], b [RANGE 60], c [RANGE 60]"
QUERIES = {
    "star": f"SELECT a.k, a.r {WINDOWS} WHERE a.k = b.k AND a.k = c.k{RANKS}",
    "text": f"SELECT a.s, a.r {WINDOWS} WHERE a.s = b.s AND a.s = c.s{RANKS}",
    "chain": f"SELECT a.k, a.r {WINDOWS} WHERE a.k = b.k AND b.k = c.k{RANKS}",
    "two": f"SELECT a.k, b.g, a.r {WINDOWS} WHERE a.k = b.k AND b.g = c.g{RANKS}",
    "both": f"SELECT a.k, a.r {WINDOWS} WHERE a.k = b.k AND a.k = c.k RANK 1 CRITERIA (a.r = 1) RANK 2 CRITERIA (c.r = 2)",
    "pair": f"SELECT a.k, a.r FROM a [RANGE 60], b [RANGE 60] WHERE a.k = b.k AND a.r = b.r{RANKS}",
    "table": "SELECT a.k, info.v FROM a [RANGE 60], b [RANGE 60], info WHERE a.k = b.k AND a.g = info.g"
    " RANK 1 CRITERIA (info.v = 1) RANK 2 CRITERIA (a.r = 2)",
    "sums": "SELECT a.k, COUNT(*) AS n FROM a [RANGE 60], b [RANGE 60] WHERE a.k = b.k GROUP BY a.k",
}
STEPS = 24


def rows(seed: int, step: int) -> dict[str, list[dict[str, Any]]]:
    """Rows of rank 1 and 2 have few values; which ones changes half-way."""
    drawn = random.Random(f"{seed} {step}")
    few = [1, 2, 3] if step < STEPS // 2 else [7, 8, 9]
    made: dict[str, list[dict[str, Any]]] = {}
    for name, n in (("a", 12), ("b", 12), ("c", 8)):
        for _ in range(drawn.randrange(n)):
            k = drawn.randrange(20)
            r = drawn.choice((1, 2, 2)) if k in few else 0
            made.setdefault(name, []).append(
                {"ts": 10 * step + drawn.randrange(10), "k": k, "s": f"s{k}", "g": drawn.randrange(4), "r": r}
            )
    return {name: sorted(own, key=lambda row: row["ts"]) for name, own in made.items()}


def opened(query: str, **options: Any) -> Any:
    session = penstock.connect(**options)
    session.execute(STREAMS)
    session.create_table("info", [{"g": g, "v": g} for g in range(4)])
    if query:
        session.query(query, name="q")
    return session


def promises(session: Any) -> Iterator[int]:
    """What rows that wait promise."""
    for core in session.engine.queries["q"].pipeline.scheduler.cores:
        for stop in core.stops:
            for lane in stop.every():
                for chunk in lane.chunks():
                    there = (chunk[PROMISE] < BACK_BURNER) & (chunk[NEXT] == 0)
                    assert (chunk[DESIGNATED][there] >= stop.at).all(), "a promise is for a stop further on"
                    yield from chunk[PROMISE][there].tolist()


class Said:
    """What a query says, step by step, and what its rows promised."""

    def __init__(self, session: Any, seed: int, restarts: Any = None) -> None:
        self.changes: list[dict[str, Any]] = []
        self.promised = Counter[int]()
        self.learnt = 0
        """Steps after which some value was promising."""
        drawn = random.Random(seed)
        for step in range(STEPS):
            for name, own in rows(seed, step).items():
                session.push(name, own)
            session.advance(10 * step + 9)
            if restarts is not None and drawn.random() < 0.3:
                session = restarts(session)
            self._hear(session)
        session.drain()
        self._hear(session)
        self.load = session.queries["q"].load

    def _hear(self, session: Any) -> None:
        self.changes += session.queries["q"].changes().to_pylist()
        if session.engine.queries["q"].pipeline.__class__.__name__ == "Ranked":
            self.promised.update(promises(session))
            scheduler = session.engine.queries["q"].pipeline.scheduler
            self.learnt += any(stop.promising for core in scheduler.cores for stop in core.stops)

    @property
    def counted(self) -> Counter[str]:
        return Counter(map(repr, self.changes))

    def ranks(self) -> Counter[int | None]:
        return Counter(row["__rank"] for row in self.changes)


@pytest.mark.parametrize("name", [n for n in QUERIES if n != "sums"])
def test_once_nothing_waits_all_has_been_said(name: str) -> None:
    promised = Counter[int]()
    for seed in range(3):
        truth = Said(opened(QUERIES[name]), seed)
        budget = random.Random(seed).choice((10, 30, 60))
        said = Said(opened(QUERIES[name], budget=budget, allocation="prefer"), seed)
        assert said.counted == truth.counted
        promised.update(said.promised)
    assert promised[1] > 0, "rows did promise something"


def test_what_is_above_is_told_as_ever() -> None:
    for seed in range(3):
        truth = opened(QUERIES["sums"])
        some = opened(QUERIES["sums"], budget=20, allocation="prefer")
        assert Said(some, seed).load is not None
        Said(truth, seed)
        assert sorted(map(repr, some.queries["q"].snapshot().to_pylist())) == sorted(
            map(repr, truth.queries["q"].snapshot().to_pylist())
        )


@pytest.mark.parametrize("name", ["star", "text", "two", "both", "table"])
@pytest.mark.parametrize("lifespan", ["", " LIFESPAN 200 MICROSECONDS"])
def test_it_goes_on_where_it_was(name: str, lifespan: str, tmp_path: Path) -> None:
    """With what was learnt: the same rows promise the same, and the same is said at the same time."""
    text = QUERIES[name].replace(" RANK 1", lifespan + " RANK 1", 1)
    options = {"budget": 30, "allocation": "prefer"}
    for seed in range(2):
        truth = Said(opened(text, **options), seed)
        said = Said(
            opened(text, **options), seed, Restarts(lambda: opened("", **options), tmp_path / "state")
        )
        assert said.changes == truth.changes
        assert said.learnt == truth.learnt > 0


def test_what_stored_rows_are_asked_teaches_the_values_of_all_of_them() -> None:
    """Windows were filled while it was calm and nobody was asked; when levels become active, no value of theirs is unknown."""
    session = opened(QUERIES["star"], budget=4_000, allocation="prefer")
    for step in range(5):
        for name, own in (("a", range(400)), ("b", range(40))):
            rows = [
                {"ts": 10 * step, "k": 7 * n % 500, "s": "", "g": 0, "r": int(n % 10 == step)} for n in own
            ]
            session.push(name, rows)
        session.advance(10 * step + 9)
    pipeline = session.engine.queries["q"].pipeline
    assert not pipeline.busy
    for name in "bc":
        session.push(name, [{"ts": 50, "k": n % 500, "s": "", "g": 0, "r": 0} for n in range(6_000)])
    session.advance(59)
    (monitor,) = pipeline.allocation.monitors
    sketch = monitor.sketches[monitor.attributes[0].number, 1]
    assert pipeline.busy
    assert len(sketch) == sketch.room
    assert sketch.total.sum() == 200, "each of them is counted once"


def test_where_nothing_is_promising_it_is_promotion() -> None:
    """Rows that matter have values that others have not, or that nobody is asked for by; and rows meet all levels at once."""
    lone = "SELECT a.k, a.r FROM a [RANGE 60], b [RANGE 60] WHERE a.k + 100 = b.k" + RANKS
    wide = "SELECT a.k, a.r FROM a [RANGE 60], b [RANGE 60] WHERE a.k < b.k AND a.g > b.g" + RANKS
    single = "SELECT k, r FROM a [RANGE 60] WHERE k > 2 RANK 1 CRITERIA (r = 1)"
    for query in (lone, wide, single):
        text = query.replace(" RANK 1", " LIFESPAN 150 MICROSECONDS RANK 1", 1)
        for seed in range(2):
            said = {}
            for name in ("prefer", "promote"):
                session = opened(text, budget=15, allocation=name)
                session.engine.queries["q"].pipeline.scheduler.atomic = True
                said[name] = Said(session, seed)
            assert said["prefer"].changes == said["promote"].changes
            assert said["prefer"].load == said["promote"].load
            assert not said["prefer"].promised


@pytest.mark.parametrize("name", ["star", "chain"])
def test_more_of_the_best_is_said_in_time(name: str) -> None:
    text = QUERIES[name].replace(" RANK 1", " LIFESPAN 200 MICROSECONDS RANK 1", 1)
    made = Counter[str]()
    for seed in range(4):
        for allocation in ("prefer", "promote", "fifo"):
            said = Said(opened(text, budget=24, allocation=allocation), seed)
            made[allocation] += said.ranks()[1]
    assert made["prefer"] > 1.2 * made["promote"], made
    assert made["prefer"] > 2 * made["fifo"], made


def test_both_searches_find_what_is_promising() -> None:
    text = QUERIES["star"].replace(" RANK 1", " LIFESPAN 200 MICROSECONDS RANK 1", 1)
    made = Counter[str]()
    for seed in range(4):
        for name in ("basic", "pruned"):
            session = opened(text, budget=24, allocation="prefer")
            if name == "basic":
                session.engine.queries["q"].pipeline.allocation.search = basic
            made[name] += Said(session, seed).ranks()[1]
    assert made["pruned"] > 0.8 * made["basic"] > 0, made


def test_nothing_is_counted_while_it_is_calm() -> None:
    session = opened(QUERIES["star"], budget=10**6, allocation="prefer")
    allocation = session.engine.queries["q"].pipeline.allocation
    assert allocation.watching
    before = repr(allocation.save())
    Said(session, 1)
    assert repr(allocation.save()) == before


def test_other_ranks_let_go_of_what_was_learnt() -> None:
    session = opened(QUERIES["star"], budget=20, allocation="prefer")
    pipeline = session.engine.queries["q"].pipeline
    for step in range(8):
        for name, own in rows(1, step).items():
            session.push(name, own)
        session.advance(10 * step + 9)
    assert any(stop.promising for stop in pipeline.scheduler.cores[0].stops)
    session.execute("ALTER QUERY q SET RANK 1 CRITERIA (a.r = 7)")
    assert not any(stop.promising for stop in pipeline.scheduler.cores[0].stops)
    assert not list(promises(session))


def test_a_step_may_bring_rows_that_join_nothing() -> None:
    """Rows without a key never wait; there is nothing to be learnt of them."""
    session = opened(QUERIES["star"], budget=1, allocation="prefer")
    for step in range(6):
        k = None if step % 2 else 1
        for name in "abc":
            session.push(name, [{"ts": 10 * step, "k": k, "s": "s", "g": 0, "r": 1}] * 3)
        session.advance(10 * step + 9)
    assert session.queries["q"].load["busy"]
