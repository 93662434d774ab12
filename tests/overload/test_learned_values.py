"""What cells learn of promising values is merged: bounds hold for what all of them counted, and answers are what they were."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest

import penstock
from penstock.operators.join.predicates import key_words
from penstock.overload import learned_values
from penstock.overload.classifiers import Classifiers
from penstock.overload.policy.preference.monitor import Monitor
from penstock.overload.policy.preference.partition_grid import Dealt, Grid
from penstock.plan.policies import Policies
from penstock.state.frequent_summary import Summary, merged
from penstock.state.frequent_values import Frequent
from penstock.state.priority_queue import PROMISE, SLOTS
from penstock.testing.local_cells import Cells

ROOM = 12


@pytest.mark.parametrize("cells", [1, 2, 4, 6])
def test_bounds_of_a_merged_summary_contain_the_counts(cells: int) -> None:
    for seed in range(8):
        drawn = np.random.default_rng((seed, cells))
        sketches = [Frequent(ROOM, 2) for _ in range(cells)]
        truth: Counter[int] = Counter()
        for _ in range(60):
            cell, side = int(drawn.integers(cells)), int(drawn.integers(2))
            # Cells differ in what is frequent.
            keys = drawn.zipf(1.4, int(drawn.integers(0, 30))) + 3 * cell * int(drawn.integers(2))
            sketches[cell].count(side, keys)
            truth.update(keys.tolist())
        told = [Summary.of(json.loads(json.dumps(summary(one).json()))) for one in sketches]
        held = bounds(merged(told, ROOM), truth)
        # Merged one after the other they hold as well.
        step = told[0]
        for one in told[1:]:
            step = merged([step, one], ROOM)
        bounds(step, truth)
        half = {value: 0.5 * count for value, count in truth.items()}
        bounds(merged([one.faded(0.5) for one in told], ROOM), half)
        assert held or len(truth) <= ROOM


def summary(sketch: Frequent) -> Summary:
    return Summary(
        tuple(sketch.values.tolist()), sketch.counts, sketch.sure, sketch.beside, sketch.total, sketch.came, sketch.rest
    )  # fmt: skip


def bounds(found: Summary, truth: Any, *, off: float = 1e-9, room: int = ROOM) -> int:
    """How many values were left out, all of which are rare."""
    total = sum(truth.values())
    assert len(found.values) <= room
    for value, count, sure in zip(found.values, found.count, found.sure, strict=True):
        assert sure - off <= truth.get(value, 0) <= count + off, (value, sure, truth.get(value, 0), count)
    left = {value: count for value, count in truth.items() if value not in found.values}
    assert max(left.values(), default=0) <= found.rest + off
    assert found.rest <= total / room + off, "no more is unknown than of one sketch over everything"
    assert all(count <= total / room + off for count in left.values())
    return len(left)


# ---------------------------------------------------------------------- cells in this process

STREAMS = "".join(
    f"CREATE STREAM {name} (ts BIGINT, k INT, g {{0}}, h BIGINT, r INT) WATERMARK ts DELAY OF INTERVAL 0;"
    for name in "abc"
)
WINDOWS = "FROM a [RANGE 1000000000], b [RANGE 1000000000], c [RANGE 1000000000]"
CHAIN = f"SELECT a.ts AS i, b.ts AS j, c.ts AS l {WINDOWS} WHERE a.k = b.k AND b.g = c.g RANK 1 CRITERIA (a.r = 1) RANK 2 CRITERIA (a.r = 2)"
STEPS = 10
INT, TEXT, PAIR = "INT", "STRING", "a STRING and a BIGINT"
"""What b and c are joined by."""


def rows(seed: int, step: int, kind: str) -> dict[str, list[dict[str, Any]]]:
    """Important rows of a come to more values of g than a cell meets soon."""
    drawn = np.random.default_rng((seed, step))
    made: dict[str, list[dict[str, Any]]] = {}
    for name, n in (("a", 8), ("b", 20), ("c", 30)):
        for i in range(n):
            g = int(drawn.integers(40))
            made.setdefault(name, []).append(
                {
                    "ts": 100 * step + 3 * i,
                    "k": int(drawn.integers(12)),
                    "g": g if kind == INT else f"é{g}" if kind == TEXT else f"é{g // 8}",
                    "h": g % 8 - 4,
                    "r": int(drawn.integers(1, 5)),
                }
            )
    return made


def opened(cells: int, kind: str, **options: Any) -> Any:
    session = penstock.connect()
    if cells:
        session.engine = Cells(session.catalog, cells, policies=Policies(**options))
    session.execute(STREAMS.format(INT if kind == INT else TEXT))
    session.query(CHAIN.replace(" RANK 1", " AND b.h = c.h RANK 1") if kind == PAIR else CHAIN, name="q")
    return session


def running(session: Any) -> list[Any]:
    """The cells' pipelines, in order."""
    return [engine.queries["q"].pipeline for engine in session.engine.lower.engines]


class Twin:
    """Counts what every cell's sketches are given, in plain dictionaries."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._cells: dict[int, tuple[Any, tuple[int, int]]] = {}
        self.counted: dict[tuple[int, int], dict[Any, float]] = defaultdict(lambda: defaultdict(float))
        count = Frequent.count

        def spied(sketch: Frequent, side: int, keys: Any, weight: float = 1.0) -> None:
            if id(sketch) in self._cells:
                of, key = self._cells[id(sketch)]
                for value in of(key[0], keys):
                    # A row of a that goes to several cells is counted in each of them, what it makes with one of b is not.
                    self.counted[key][value] += weight / (self.copies if side == 0 else 1)
            count(sketch, side, keys, weight)

        monkeypatch.setattr(Frequent, "count", spied)
        self.copies = 1

    def watch(self, session: Any, kind: str) -> None:
        (part,) = session.engine.queries["q"].parts
        self.copies = dict(part.placement.scans)["a"].routing.copies
        for engine, pipeline in zip(session.engine.lower.engines, running(session), strict=True):
            (monitor,) = pipeline.allocation.monitors
            own = {one.number: spoken(engine, kind) for one in monitor.attributes if set(one.sides) == {1, 2}}
            assert own

            def values(number: int, keys: Any, own: dict[int, Any] = own) -> Any:
                of = own.get(number, lambda key: key)
                return [of(key) for key in keys.tolist()]

            for key, sketch in monitor.sketches.items():
                self._cells[id(sketch)] = values, key


def spoken(engine: Any, kind: str) -> Any:
    """How a cell tells the keys of b and c, worked out from all values there are."""
    if kind == INT:
        return lambda key: key
    if kind == TEXT:
        return engine.strings.text

    def of(key: int) -> str:
        pairs = [(f"é{g // 8}", g % 8 - 4) for g in range(40)]
        codes = np.array([[engine.strings.code(text), h] for text, h in pairs], np.int64)
        told = dict(zip(key_words([codes[:, 0], codes[:, 1]], 40).tolist(), pairs, strict=True))
        return json.dumps(list(told[key]), ensure_ascii=False)

    return of


def learnt(session: Any) -> dict[str, Any]:
    stage = session.engine.lower
    routings = {one.name.lower(): one.routing for one in stage.routers}
    dealt = [Dealt(routings, cell) for cell in range(len(stage.engines))]
    return learned_values.together(map(learned_values.learnt, stage.engines, dealt))


def dealt_right(session: Any) -> bool:
    """Whether values of some attribute do not come to every cell; those that did come somewhere may come there."""
    stage = session.engine.lower
    routings = {one.name.lower(): one.routing for one in stage.routers}
    apart = False
    for cell, (engine, pipeline) in enumerate(zip(stage.engines, running(session), strict=True)):
        (monitor,) = pipeline.allocation.monitors
        grid = Grid(monitor.core, Dealt(routings, cell))
        for one in monitor.attributes:
            for which, index in one.sides.items():
                mine, others = (
                    p.scheduler.cores[0].parts_of(which, index, p.scheduler.cores[0].stocks[which].stored())
                    for p in (pipeline, running(session)[cell - 1])
                )
                assert grid.comes(one, mine, engine.strings).all()
                if not monitor.texts(one).any():
                    apart |= not grid.comes(one, others, engine.strings).all()
    return apart


class Foreign:
    """Values that rows were found promising by in cells that had not counted them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.values: set[Any] = set()
        self._cells: dict[int, tuple[Any, Any]] = {}
        classify = Classifiers.classify

        def spied(core: Any, stop: Any, rows: Any) -> float:
            before = rows[PROMISE].copy()
            spent = classify(core, stop, rows)
            new = rows[:, rows[PROMISE] < before]
            engine, monitor = self._cells[id(core)]
            for one in stop.promising:
                number = monitor.of[stop.route, one.designated]
                own = {
                    v
                    for (n, _), sketch in monitor.sketches.items()
                    for v in sketch.values.tolist()
                    if n == number
                }
                keys = core.stocks[one.which].indexes[one.index].key[new[SLOTS + one.which]]
                found = set(keys.tolist()) & {value for value, _ in one.levels}
                self.values |= {(id(engine), k) for k in found - own}
            return spent

        monkeypatch.setattr(Classifiers, "classify", spied)

    def watch(self, session: Any) -> None:
        for engine, pipeline in zip(session.engine.lower.engines, running(session), strict=True):
            self._cells[id(pipeline.scheduler.cores[0])] = engine, pipeline.allocation.monitors[0]


@pytest.mark.parametrize(("cells", "kind"), [(1, INT), (2, TEXT), (4, INT), (6, TEXT), (1, PAIR), (4, PAIR)])
def test_cells_learn_from_each_other(cells: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is counted twice, nothing is lost, and all is said in the end, as in one cell and without a budget."""
    seed = 11 * cells
    said = {}
    for name, count in (("free", 0), ("cells", cells)):
        twin, foreign = (Twin(monkeypatch), Foreign(monkeypatch)) if count else (None, None)
        session = opened(count, kind, budget=60) if count else opened(0, kind)
        if twin is not None and foreign is not None:
            twin.watch(session, kind)
            foreign.watch(session)
        for step in range(STEPS):
            for stream, own in rows(seed, step, kind).items():
                session.push(stream, own)
            session.advance(100 * step + 99)
        if twin is not None:
            told = learnt(session)["q"]["cores"][0]["sketches"]
            assert len(told) >= 3, "two attributes, and two levels if there was time for both"
            json.dumps(told)
            for number, level, found in told:
                bounds(Summary.of(found), dict(twin.counted[number, level]), off=1e-2, room=64)
            assert max(len(found["values"]) for _, _, found in told) > 12
            for pipeline in running(session):
                (monitor,) = pipeline.allocation.monitors
                again = Monitor(monitor.core, monitor.levels)
                again.take_up(json.loads(json.dumps(monitor.save())))
                assert again.spelt == monitor.spelt and any(monitor.spelt.values()) == (kind == PAIR)
            assert dealt_right(session) or cells == 1
            said["promised"] = sum(
                one["promised"] for p in running(session) for one in p.load()["ranks"] if one["rank"] == 1
            )
        if count:
            session.drain()
        said[name] = Counter(map(repr, session.queries["q"].changes().to_pylist()))
        monkeypatch.undo()
    assert said["cells"] == said["free"] and len(said["free"]) > 100
    assert said["promised"] > 0
    assert foreign is not None and bool(foreign.values) == (cells > 1), (
        "a value that is promising since another cell has found it so"
    )


def test_a_cell_that_was_calm_begins_with_what_others_know() -> None:
    session = opened(2, TEXT, budget=60)
    one, other = running(session)
    for step in range(8):
        for stream, own in rows(3, step, TEXT).items():
            session.push(stream, own if stream == "c" else [r for r in own if _cell(session, stream, r) == 0])
        session.advance(100 * step + 99)
    monitor = other.allocation.monitors[0]
    assert one.busy and not any(map(len, monitor.sketches.values())), "it has met nobody of importance"
    assert any(len(found) > 3 for found in monitor.others.values())
    (attribute,) = [a.number for a in monitor.attributes if len(monitor.others.get((a.number, 1), ())) > 0]
    assert monitor.unseen(attribute, 1) == monitor.others[attribute, 1].unseen
    monitor.look()
    known, mine = monitor.known[attribute, 1], one.allocation.monitors[0].sketches[attribute, 1]
    assert sorted(_texts(session, 1, known.values)) == sorted(_texts(session, 0, mine.values))


def _cell(session: Any, stream: str, row: dict[str, Any]) -> int:
    """Where a row goes, by what the router says of it."""
    from penstock.ingest.convert import read_rows

    (router,) = [r for i, r in session.engine.lower.routers.items() if i.stream.name == stream]
    schema = session.catalog.streams[stream].schema
    return int(router.places(read_rows([row], schema, session.engine.strings), 1)[0])


def _texts(session: Any, cell: int, values: Any) -> list[str]:
    return [session.engine.lower.engines[cell].strings.text(v) for v in values.tolist()]


def test_what_is_told_is_bounded() -> None:
    """Long texts stay where they are, and however many values there are, a summary has its room."""
    session = opened(2, TEXT, budget=100)
    drawn = random.Random(5)
    for step in range(6):
        for stream in "abc":
            session.push(
                stream,
                [
                    {
                        "ts": 100 * step + i,
                        "k": i % 4,
                        "g": "x" * drawn.choice([3, 400]) + f"{step} {i}",
                        "h": 0,
                        "r": 1,
                    }
                    for i in range(60)
                ],
            )
        session.advance(100 * step + 99)
    told = learnt(session)
    values = [v for _, _, s in told["q"]["cores"][0]["sketches"] for v in s["values"]]
    assert len(values) <= 4 * 64
    assert max(len(v) for v in values if isinstance(v, str)) <= 256
    assert len(json.dumps(told)) < 4 * 64 * (256 + 8 * 12)
