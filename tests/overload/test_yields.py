"""What rows come to by group and level: against a twin that counts one row at a time, through restarts, and in bounded room."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

import numpy as np
import pytest

import penstock
from penstock.overload import yields as counting
from penstock.overload.priority_executor import Ranked
from penstock.overload.queued_operator import Stop
from penstock.state.priority_queue import BACK_BURNER

DDL = """
CREATE STREAM a (ts BIGINT, g INT, x INT, y INT, p DOUBLE) WATERMARK ts DELAY OF 0;
CREATE STREAM b (ts BIGINT, x INT, z INT) WATERMARK ts DELAY OF 0;
"""
ALONE = (
    "SELECT g, AVG(p) AS m FROM a [RANGE 20] WHERE x < 3 + g GROUP BY g LIFESPAN 60 MICROSECONDS"
    " RANK 1 CRITERIA (y = 1) RANK 2 CRITERIA (y = 2)"
)
JOINED = (
    "SELECT a.g, AVG(a.p) AS m FROM a [RANGE 20], b [RANGE 20] WHERE a.x = b.x GROUP BY a.g LIFESPAN 200 MICROSECONDS"
    " RANK 1 CRITERIA (a.y = 1) RANK 2 CRITERIA (b.z = 1)"
)


LEVELS = (1, 2, BACK_BURNER)


def pipeline_of(session: Any) -> Ranked:
    found = session.engine.queries["q"].pipeline
    assert isinstance(found, Ranked)
    return found


class Twin:
    """Looks over the shoulder of a query's yields, and counts for itself."""

    def __init__(self, session: Any) -> None:
        self.above = pipeline_of(session).riders.every[0].above
        unmade = self.above._unmade
        assert unmade is not None
        self.unmade, self.yields = unmade, unmade._yields
        self.routes = self.yields._routes
        self.came: dict[Any, float] = defaultdict(float)
        self.left: dict[Any, float] = defaultdict(float)
        self.due: dict[Any, float] = defaultdict(float)
        self.checked = self.drawn = 0
        self.routes.watch = self
        scheduler = pipeline_of(session).scheduler
        dropped = scheduler.unmade
        assert dropped is not None

        def both(core: int, stop: Stop, rows: Any) -> None:
            self.check(stop, rows)
            dropped(core, stop, rows)

        scheduler.unmade = both

    def told(self, rows: Any, inputs: frozenset[int]) -> list[tuple[int | None, int]]:
        """Group (None: not known yet) and level of rows, from their values."""
        schema = self.routes.core.schema
        columns = self.routes.columns(rows, frozenset(range(len(schema))))
        of = {f.name: c.values.tolist() for f, c in zip(schema, columns, strict=True) if len(c)}
        first = schema[0].qualifier == "a"
        has = {"a": (0 if first else 1) in inputs, "b": (1 if first else 0) in inputs and len(schema) > 5}
        out = []
        for i in range(rows.shape[1]):
            alone = len(schema) <= 5
            level = BACK_BURNER
            if has["a"] and alone:
                level = of["y"][i] if of["y"][i] in (1, 2) else BACK_BURNER
            elif has["a"] and of["y"][i] == 1:
                level = 1
            elif has["b"] and of["z"][i] == 1:
                level = 2
            out.append((of["g"][i] if has["a"] else None, level))
        return out

    def come(self, stop: Stop, rows: Any) -> None:
        told, at = self.told(rows, stop.bound), (stop.route, stop.at)
        for _, level in told:
            self.came[(*at, level)] += 1
        for group, level in told:
            if group is not None:
                self.due[(*at, level)] += self.of_group(stop, group)
        for group, level in told:
            if group is not None:
                self.came[(*at, group, level)] += 1
        self.yields.come(stop, rows)

    def leave(self, stop: Stop, rows: Any) -> None:
        after = stop.bound if stop.target is None else stop.bound | {stop.target}
        for (group, level), (_, then) in zip(
            self.told(rows, stop.bound), self.told(rows, after), strict=True
        ):
            self.left[stop.route, stop.at, level, then] += 1
            if group is not None:
                self.left[stop.route, stop.at, group, level, then] += 1
        self.yields.leave(stop, rows)

    def of_all(self, stop: Stop) -> float:
        at = stop.route, stop.at
        came = sum(self.came[(*at, k)] for k in LEVELS)
        return sum(self.left[(*at, k, m)] for k in LEVELS for m in LEVELS) / came if came else 1.0

    def of_group(self, stop: Stop, group: int) -> float:
        at = stop.route, stop.at, group
        made = sum(self.left[(*at, k, m)] for k in LEVELS for m in LEVELS)
        return (made + self.of_all(stop)) / (sum(self.came[(*at, k)] for k in LEVELS) + 1)

    def rate(self, stop: Stop, group: int | None, level: int, then: int) -> float:
        at = stop.route, stop.at
        if group is None:
            return (self.left[(*at, level, then)] + self.of_all(stop) * (level == then)) / (
                self.came[(*at, level)] + 1
            )
        made = sum(self.left[(*at, level, m)] for m in LEVELS)
        differs = (made + 1) / (self.due[(*at, level)] + 1)

        def of_level(m: int) -> float:
            share = (self.left[(*at, level, m)] + (level == m)) / (made + 1)
            own = self.left[(*at, group, level, m)] + self.of_group(stop, group) * differs * share
            return own / (self.came[(*at, group, level)] + 1)

        most = max(1.0, sum(map(of_level, LEVELS))) if stop.target is None else 1.0
        return of_level(then) / most

    def results(self, stop: Stop, group: int | None, level: int) -> dict[int, float]:
        """By level, of one row before a stop."""
        found = {level: 1.0}
        for one in self.routes.routes_by[stop.route][stop.at :]:
            ahead: dict[int, float] = defaultdict(float)
            for k, many in found.items():
                for m in LEVELS:
                    ahead[m] += many * self.rate(one, group, k, m)
            found = ahead
        return found

    def check(self, stop: Stop, rows: Any) -> None:
        """What is said of rows that are dropped."""
        told = self.told(rows, stop.bound)
        yields, n = self.yields, rows.shape[1]
        ids = yields.ids(yields.keys(rows), n) if yields.knows(stop) else None
        table, _ = yields.ahead(stop, yields.level(rows, stop.bound), ids)
        for row, (group, level) in zip(table, told, strict=True):
            expected = self.results(stop, group, level)
            assert row.tolist() == pytest.approx([expected.get(k, 0.0) for k in LEVELS])
        made = self.unmade.of(stop, rows)
        self.checked += len(told)
        if made is None:
            assert told[0][0] is None
            return
        assert made.columns[2].values.sum() == pytest.approx(table.sum())
        if told[0][0] is not None:
            groups = np.bincount(made.columns[0].values, made.columns[2].values, minlength=4)
            mine = np.bincount([g for g, _ in told if g is not None], table.sum(axis=1), minlength=4)
            assert groups.tolist() == pytest.approx(mine.tolist())
        else:
            self.drawn += len(told)


def fed(session: Any, seed: int, steps: range, *, groups: int = 4, many: int = 40) -> None:
    for step in steps:
        rng = Random(f"{seed} {step}")
        times = sorted(10 * step + rng.randint(1, 10) for _ in range(many))
        session.push(
            "a",
            [
                {
                    "ts": t,
                    "g": rng.randrange(groups),
                    "x": rng.randint(0, 6),
                    "y": rng.randint(0, 4),
                    "p": rng.random(),
                }
                for t in times
            ],
        )
        session.push("b", [{"ts": t, "x": rng.randint(0, 6), "z": rng.randint(0, 2)} for t in times[::4]])
        session.advance(10 * step + 10)


def opened(text: str, **options: Any) -> Any:
    session: Any = penstock.connect(allocation="promote", **options)
    session.execute(DDL)
    session.query(text, name="q")
    return session


@pytest.mark.parametrize(("text", "budget"), [(ALONE, 30), (JOINED, 100)])
def test_yields_are_the_twins(text: str, budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LATE", "LATE_GROUP", "FEW"):
        monkeypatch.setattr(counting, name, 10**9)
    session = opened(text, budget=budget)
    twin = Twin(session)
    fed(session, 1, range(12))
    assert twin.checked > 100
    assert (twin.drawn > 0) is (text == JOINED)


def test_other_times_are_noticed() -> None:
    """A group none of whose rows passed, and then all do: after a few rows the old ones count no more."""
    session = opened(ALONE.replace("3 + g", "4"), budget=40)

    def step(n: int, x: int) -> None:
        ys = Random(n).choices((1, 2, 3, 4), k=60)
        rows = [{"ts": 10 * n + 1 + i // 10, "g": 1, "x": x, "y": y, "p": 1.0} for i, y in enumerate(ys)]
        others = [{**r, "g": 2, "x": 5 * (i % 2)} for i, r in enumerate(rows)]
        session.push("a", sorted(rows + others, key=lambda r: r["ts"]))
        session.advance(10 * n + 10)

    def expected(group: int) -> float:
        twin = pipeline_of(session).riders.every[0].above._unmade
        assert twin is not None
        yields = twin._yields
        (stop,) = yields._routes.stops
        ids = yields._frame.values[0][: yields._slab.capacity] == group
        found = yields._rates(stop, np.flatnonzero(ids & (yields._slab["seen"] >= 0)).astype(np.int32))
        return float(found[0, 2].sum())

    for n in range(6):
        step(n, 5)
    assert expected(1) < 0.1
    assert 0.25 < expected(2) < 0.75
    for n in range(6, 11):
        step(n, 0)
    assert expected(1) > 0.85
    assert 0.25 < expected(2) < 0.75


def test_many_groups_take_bounded_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "NUMBERS", 900)
    session = opened(ALONE, budget=300)
    fed(session, 2, range(6), groups=100_000, many=200)
    unmade = pipeline_of(session).riders.every[0].above._unmade
    assert unmade is not None
    yields = unmade._yields
    assert len(yields._groups) <= yields._most + 200
    assert (yields._slab["seen"] >= 0).sum() == len(yields._groups)
    assert yields._slab.capacity < 4096


@pytest.mark.parametrize(("text", "budget"), [(ALONE, 30), (JOINED, 100)])
def test_a_restart_changes_no_estimate(text: str, budget: int, tmp_path: Any) -> None:
    from penstock.durability.snapshot import dump, read, restore, write

    whole, session = opened(text, budget=budget), opened(text, budget=budget)
    for one in (whole, session):
        fed(one, 3, range(6))
    said = [one.queries["q"].changes() for one in (whole, session)]
    assert said[0].equals(said[1])
    standing = session.engine.queries["q"]
    write(dump(session.engine), tmp_path / "state")
    again = restore(
        session.catalog,
        [("q", standing.root, False)],
        read(tmp_path / "state"),
        policies=session.options.policies,
    )
    session.engine = again
    for one in (whole, session):
        fed(one, 3, range(6, 14))
    told = [one.engine.queries["q"].answer.changes().to_pylist() for one in (whole, session)]
    assert told[0] == told[1]
    assert any(row["__shed"] > 0 for row in told[0])
