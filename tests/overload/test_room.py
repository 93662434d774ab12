"""Groups that answer from samples in bounded room: the oldest panes go, count as expired, and a naive twin says the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock
from penstock.errors import StateError
from tests.overload import naive
from tests.overload.naive import Level
from tests.overload.test_sampled_aggregate import assert_alike

DDL = "CREATE STREAM a (ts BIGINT, g INT, p DOUBLE, x INT, r INT) WATERMARK ts DELAY OF 0;"
ASKED: tuple[tuple[str, str | None], ...] = (("avg", "p"), ("count", None), ("sum", "x"), ("max", "x"))
END = 100


@dataclass
class Twin:
    """Rows alive and rows that were let go of, a step at a time, by the rule: whole panes, the oldest first, until there is room."""

    length: int
    slide: int
    most: int
    error: float
    alive: list[tuple[int, int, dict[str, Any]]] = field(default_factory=list)
    gone: list[tuple[int, int, dict[str, Any]]] = field(default_factory=list)
    until: int = 0

    def edge(self, t: int) -> int:
        return -(-t // self.slide) * self.slide

    def step(self, rows: list[dict[str, Any]], until: int) -> None:
        """`rows`: all that came so far."""
        spans = [(self.edge(r["ts"]), self.edge(r["ts"] + self.length), r) for r in rows]
        coming = [s for s in spans if self.until < s[0] <= until]
        at = self.until + 1
        living = sorted((s for s in self.alive if s[1] > at), key=lambda s: s[1])
        while living and len(living) + len(coming) > self.most:
            pane = living[0][1]
            going = [s for s in living if s[1] == pane]
            for start, end, row in going:
                self.alive.remove((start, end, row))
                self.alive.append((start, at, row))
                self.gone.append((at, end, row))
            living = [s for s in living if s[1] != pane]
        self.alive += coming
        self.until = until

    def answers(self, tau: int, levels: int = 2) -> Iterator[tuple[Any, ...]]:
        seen = [r for start, end, r in self.alive if start <= tau < end]
        lost = [r for start, end, r in self.gone if start <= tau < end]
        for g in sorted({r["g"] for r in (*seen, *lost)}):
            by = []
            for k in range(1, levels + 2):
                of = [
                    [r for r in rows if r["g"] == g and min(r["r"], levels + 1) == k] for rows in (seen, lost)
                ]
                by.append(Level(of[0], float(len(of[1])), 0.0))
            k = naive.used(by, ASKED, self.error, False)
            if k == 0:
                continue
            chosen = by[:k]
            said = [naive.answer(chosen, f, c) for f, c in ASKED]
            best = next(i + 1 for i, level in enumerate(chosen) if level.rows)
            here, out = sum(len(v.rows) for v in chosen), sum(v.expired for v in chosen)
            whole, missing = sum(len(v.rows) for v in by), sum(v.expired for v in by)
            yield (
                g, *(v for v, _, _ in said), best if best <= levels else None, "1" * k + "0" * (levels + 1 - k),
                here + out, here, *(end for _, low, high in said for end in (low, high)), missing / (whole + missing),
            )  # fmt: skip


def opened(twin: Twin, **options: Any) -> tuple[Any, Any]:
    session: Any = penstock.connect(
        budget=10**9, sampling_memory=twin.most, sampling_error=twin.error, **options
    )
    session.execute(DDL)
    calls = ", ".join(f"{f}({c or '*'}) AS o{i}" for i, (f, c) in enumerate(ASKED))
    window = f"RANGE {twin.length}" + (f" SLIDE {twin.slide}" if twin.slide > 1 else "")
    query = session.query(
        f"SELECT g, {calls} FROM a [{window}] GROUP BY g LIFESPAN 1 HOUR RANK 1 CRITERIA (r = 1) RANK 2 CRITERIA (r = 2)",
        name="q",
    )
    return session, query


def told(said: list[dict[str, Any]], tau: int) -> list[tuple[Any, ...]]:
    live: list[tuple[Any, ...]] = []
    for row in sorted(said, key=lambda r: (r["__ts"], r["__op"] == "+")):
        op, ts, _exp, *rest = row.values()
        if ts > tau:
            break
        live = [(e, v) for e, v in live if e is None or e > ts or op == "-"]
        if op == "+":
            live.append((row["__exp"], tuple(rest)))
        else:
            live.remove((row["__exp"], tuple(rest)))
    return [v for e, v in live if e is None or e > tau]


def drawn(rng: Random) -> tuple[list[dict[str, Any]], list[int]]:
    rows: list[dict[str, Any]] = [
        {"g": rng.randint(0, 2), "p": rng.gauss(50, 5), "x": rng.randint(0, 9), "r": rng.choice((1, 2, 3, 3))}
        for _ in range(300)
    ]
    times = sorted(rng.randint(1, END - 30) for _ in rows)
    for row, ts in zip(rows, times, strict=True):
        row["ts"] = ts
    return rows, sorted({*rng.sample(range(1, END), 14), END})


@pytest.mark.parametrize("seed", range(10))
def test_the_oldest_panes_go(seed: int) -> None:
    rng = Random(seed)
    twin = Twin(
        rng.choice((12, 24)), rng.choice((1, 4, 6)), rng.choice((5, 30, 60, 1000)), rng.choice((1.0, 1000.0))
    )
    rows, cuts = drawn(rng)
    session, query = opened(twin)
    said: list[dict[str, Any]] = []
    before = 0
    for cut in cuts:
        news = [r for r in rows if before < r["ts"] <= cut]
        if news:
            session.push("a", news)
        session.advance(cut)
        said += query.changes().to_pylist()
        twin.step([r for r in rows if r["ts"] <= cut], cut)
        before = cut
    assert query.load["let_go"] == len(twin.gone)
    assert bool(twin.gone) is (twin.most < 1000)
    for tau in range(1, END):
        expected = list(twin.answers(tau))
        if twin.slide > 1 or len(twin.gone) == 0:  # else many ends are told in parts
            assert_alike(told(said, tau), expected, 1, tau)


def test_many_ends_are_told_in_a_few_parts() -> None:
    """A row a pane: what is let go of at once lives on in sixteen parts at the most, each as long as its last."""
    twin = Twin(80, 1, 10, 1000.0)
    session, query = opened(twin)
    session.push("a", [{"ts": t, "g": 1, "p": 1.0, "x": t, "r": 1} for t in range(1, 71)])
    session.advance(70)
    session.push("a", [{"ts": 71, "g": 1, "p": 1.0, "x": 0, "r": 1}])
    session.advance(71)
    # 61 rows go for one that comes; of them 60 end by 141.
    (row,) = query.snapshot(at=71).to_pylist()
    assert row["o1"] == 71 and query.load["let_go"] == 61
    held = session.engine.queries["q"].rider.above.pipeline
    sizes = [h.rows for node in (held.root.node,) for h in _holdings(held, node) if h.what == "members"]
    assert sorted(sizes) == [10, 16]


def _holdings(pipeline: Any, node: Any) -> Iterator[Any]:
    for operator in pipeline.operators.get(id(node), ()):
        if hasattr(operator, "holdings"):
            yield from operator.holdings()
    for below in node.inputs:
        yield from _holdings(pipeline, below)


def test_a_restart_changes_nothing(tmp_path: Path) -> None:
    from penstock.durability.snapshot import dump, read, restore, write

    rng = Random(5)
    twin = Twin(24, 4, 30, 5.0)
    rows, _ = drawn(rng)
    whole, other = opened(twin), opened(twin)
    for session, _ in (whole, other):
        session.push("a", [r for r in rows if r["ts"] <= 40])
        for cut in (20, 30, 40):
            session.advance(cut)
    (session, _), standing = other, other[0].engine.queries["q"]
    said = standing.answer.changes().to_pylist()
    write(dump(session.engine), tmp_path / "state")
    session.engine = restore(
        session.catalog, [("q", standing.root, False)], read(tmp_path / "state"), session.options.policies
    )
    for one in (whole[0], session):
        one.push("a", [r for r in rows if r["ts"] > 40])
        for cut in (50, 60, END):
            one.advance(cut)
    again = session.engine.queries["q"]
    assert said + again.answer.changes().to_pylist() == whole[1].changes().to_pylist()
    assert again.pipeline.load()["let_go"] == whole[1].load["let_go"] > 0


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "9"])
def test_room_that_is_none_is_refused(wrong: object) -> None:
    with pytest.raises(StateError, match="sampling_memory"):
        penstock.connect(budget=1, sampling_memory=wrong)
