"""Random joins with ranks, run by a budget that interrupts probes anywhere, and what the ordinary join says of the same rows."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import penstock
from penstock.api.query import Query
from penstock.api.session import Session
from penstock.durability.snapshot import dump, read, restore, write
from penstock.optimizer import optimize
from penstock.plan.query_root import top
from penstock.plan.rank_levels import levels_of
from penstock.sql import bind, parse

STEPS, LENGTH = 14, 40
KEPT = ("__op", "__ts", "__exp")


class Case:
    """A join of two to four streams, perhaps with a table, ranks of any inputs, and rows for some steps."""

    def __init__(self, seed: int) -> None:
        self.drawn = drawn = random.Random(f"probing {seed}")
        self.streams = "abcd"[: drawn.choice((2, 2, 3, 3, 4))]
        self.table = drawn.random() < 0.3
        self.keys = drawn.choice((1, 2, 4))
        names = [*self.streams, *("t" if self.table else "")]
        drawn.shuffle(names)
        tied = [names[0]]
        where = []
        for name in names[1:]:
            other = drawn.choice(tied)
            column = drawn.choice("kkj")
            where.append(f"{other}.{column} = {name}.{column}")
            tied.append(name)
        if drawn.random() < 0.3:
            one, other = drawn.sample(names, 2)
            where.append(f"{one}.x + {other}.x > 3")
        if drawn.random() < 0.2:
            where.append(f"{self.streams[0]}.x < 9")
        windows = [f"{n} [RANGE {drawn.choice((15, 40, 90))}]" if n != "t" else n for n in names]
        picked = ", ".join(f"{n}.{c} AS {n}{c}" for n in names for c in "kjx")
        self.plain = f"SELECT {picked} FROM {', '.join(windows)} WHERE {' AND '.join(where)}"
        self.names = names
        self.ranks = self._ranks()
        self.others = self._ranks()
        self.steps = [self._step(n) for n in range(STEPS)]

    def _ranks(self) -> str:
        drawn = self.drawn
        about = drawn.sample(self.names, drawn.choice((1, 1, 1, 2)))
        made = []
        for n in range(1, 1 + drawn.choice((1, 2, 3))):
            criteria = " AND ".join(f"{name}.x < {3 * n}" for name in about)
            if drawn.random() < 0.3:
                criteria += f" OR {drawn.choice(about)}.x = 9"
            made.append(f"RANK {n} CRITERIA ({criteria})")
        return " ".join(made)

    def _rows(self, step: int) -> list[dict[str, int]]:
        drawn = self.drawn
        times = sorted(drawn.randrange(step * LENGTH, (step + 1) * LENGTH) for _ in range(drawn.randrange(7)))
        return [
            {"ts": t, "k": drawn.randrange(self.keys), "j": drawn.randrange(2), "x": drawn.randrange(10)}
            for t in times
        ]

    def _step(self, step: int) -> tuple[dict[str, list[dict[str, int]]], list[dict[str, int]]]:
        rows = {name: self._rows(step) for name in self.streams}
        facts = [{k: r[k] for k in "kjx"} for r in self._rows(step)[:2]] if self.table else []
        return rows, facts

    def session(self, **options: Any) -> Session:
        s = penstock.connect(**options)
        for name in self.streams:
            s.execute(
                f"CREATE STREAM {name} (ts BIGINT, k INT, j INT, x INT) WATERMARK ts DELAY OF INTERVAL 0"
            )
        if self.table:
            s.execute("CREATE TABLE t (k INT, j INT, x INT)")
        return s


def take(case: Case, s: Session, step: int) -> None:
    rows, facts = case.steps[step]
    if facts:
        s.update_table("t", insert=facts)
    for name, own in rows.items():
        s.push(name, own)
    s.advance((step + 1) * LENGTH - 1)


def said(s: Session) -> Counter[tuple[Any, ...]]:
    rows = s.queries["q"].changes().to_pylist()
    return Counter(tuple(v for k, v in row.items() if k != "__rank") for row in rows)


def truth(case: Case) -> Counter[tuple[Any, ...]]:
    """By the ordinary join."""
    s = case.session()
    s.query(case.plain, name="q")
    heard: Counter[tuple[Any, ...]] = Counter()
    for step in range(STEPS):
        take(case, s, step)
        heard += said(s)
    return heard


class Busy:
    """The same with a budget; `restarts`: through files, before some steps."""

    def __init__(self, case: Case, seed: int, path: Path | None, **options: Any) -> None:
        self.case, self.path, self.options = case, path, {"allocation": "prefer", **options}
        self.drawn = random.Random(seed)
        self.session = case.session(**self.options)
        self.session.query(f"{case.plain} {case.ranks}", name="q")
        self.heard: Counter[tuple[Any, ...]] = Counter()
        self.aside = self.restarted = 0

    @property
    def pipeline(self) -> Any:
        return self.session.engine.queries["q"].pipeline

    def run(self) -> Busy:
        changed = self.drawn.randrange(STEPS) if self.drawn.random() < 0.3 else -1
        for step in range(STEPS):
            if self.path is not None and self.drawn.random() < 0.3:
                self._restart(self.path)
            if step == changed and self.path is None:
                self.session.execute(f"ALTER QUERY q SET {self.case.others}")
            take(self.case, self.session, step)
            self.heard += said(self.session)
            self.aside += self.waits_aside()
            check_stocks(self.pipeline)
        self.session.drain()
        self.heard += said(self.session)
        return self

    def waits_aside(self) -> int:
        return sum(
            len(lane)
            for core in self.pipeline.scheduler.cores
            for stop in core.stops
            for lane in stop.aside.values()
        )

    def _restart(self, path: Path) -> None:
        self.restarted += self.waits_aside() > 0
        write(dump(self.session.engine), path)
        now = self.case.session(**self.options)
        query = self.session.queries["q"]
        bound = bind(parse(query.sql)[0], now.catalog).query
        now.engine = restore(
            now.catalog,
            [("q", top(optimize(bound.root), levels_of(bound)), query._standing.answer.kept)],
            read(path),
        )
        now._queries["q"] = Query(now, now.engine.queries["q"], bound)
        self.session = now


def check_stocks(pipeline: Any) -> None:
    """Every slot is free once or holds one row, and tiers count what is built."""
    for core in pipeline.scheduler.cores:
        for stock in core.stocks:
            pool = stock.pool
            free = pool._free[: int(pool._left[0])]
            assert len(set(free.tolist())) == len(free)
            there = set(range(pool.capacity)) - set(free.tolist())
            stored = stock.stored().tolist()
            assert set(stored) <= there
            assert sum(stock._held) == len(stored)
