"""Streams that are silent, or whose times are wrong: what holds the clock back is said and can be moved."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock

NOW = dt.datetime.now(dt.UTC).replace(tzinfo=None, microsecond=0)
SECOND = dt.timedelta(seconds=1)


class Run:
    """Two streams, a query on each and one on both, and what they have given."""

    def __init__(self, spark: SparkSession, folder: Path, clause: str = "", kind: str = "BIGINT") -> None:
        """`clause`: of the second stream."""
        self.session = penstock.connect(spark, checkpoint=str(folder), cells=1)
        for name in "ab":
            self.session.execute(
                f"CREATE STREAM {name} (ts {kind}, x INT) WATERMARK ts DELAY OF INTERVAL 0 {clause * (name == 'b')}"
            )
        self.told: dict[str, list[int]] = {"a": [], "b": []}
        for name in "ab":
            query = self.session.query(
                f"SELECT x FROM {name} [RANGE 5{' SECONDS' * (kind != 'BIGINT')}]", name=f"q{name}"
            )
            query.foreach_batch(
                lambda frame, _, name=name: self.told[name].extend(r.x for r in frame.collect())
            )
        span = f"[RANGE 5{' SECONDS' * (kind != 'BIGINT')}]"
        both = self.session.query(f"SELECT a.x FROM a {span}, b {span} WHERE a.x = b.x", name="both")
        both.foreach_batch(lambda frame, _: None)
        self.handle: Any = None

    def push(self, stream: str, times: list[Any]) -> None:
        self.session.push(stream, [{"ts": t, "x": n} for n, t in enumerate(times)])

    def start(self) -> None:
        self.handle = self.session.start(trigger={"processingTime": "0 seconds"})
        self.handle.processAllAvailable()


@pytest.fixture
def run(quick: SparkSession, tmp_path: Path) -> Iterator[Any]:
    made: list[Run] = []

    def begun(*given: Any) -> Run:
        made.append(Run(quick, tmp_path / f"c{len(made)}", *given))
        return made[-1]

    yield begun
    for one in made:
        if one.handle is not None:
            one.handle.stop()


def test_a_silent_stream_is_named_and_can_be_advanced(run: Any) -> None:
    silent = run()
    silent.push("a", list(range(20_000)))
    with pytest.warns(
        penstock.StreamWarning, match=r"stream b has had no rows and holds the clock back: 20,000 rows"
    ):
        silent.start()
    last = silent.handle.lastProgress
    assert last["waiting"] == {"a": 20_000}
    assert last["heldBackBy"] == "b"
    assert last["stateBytes"] > 20_000 * 12
    assert "held back by stream b: rows wait, 20,000 of a" in silent.session.explain()
    assert silent.told["a"] == []
    silent.session.advance(15_000, stream="b")
    silent.handle.processAllAvailable()
    assert silent.session.clock == 15_000
    assert sorted(silent.told["a"]) == list(range(15_001))
    silent.push("b", [14_000, 15_001])
    silent.handle.processAllAvailable()
    assert [row.ts for row in silent.session.late("b").collect()] == [14_000]


def test_a_stream_that_is_idle_for_long_holds_nothing_back(run: Any) -> None:
    idle = run("IDLE AFTER INTERVAL 1 MILLISECOND")
    idle.push("a", list(range(100)))
    idle.start()
    idle.handle.processAllAvailable()
    assert idle.session.clock == 98
    assert sorted(idle.told["a"]) == list(range(99))
    idle.push("b", [5, 500])
    idle.handle.processAllAvailable()
    assert [row.ts for row in idle.session.late("b").collect()] == [5]
    assert idle.session.clock == 98, "a stream that has rows again is waited for, and so is the other"


def test_rows_far_ahead_are_set_aside(run: Any) -> None:
    far = run("", "TIMESTAMP")
    times = [NOW - n * SECOND for n in range(9, 0, -1)]
    for name in "ab":
        far.push(name, times[:5])
    far.start()
    far.push("a", [dt.datetime(2099, 1, 1)])
    with pytest.warns(penstock.StreamWarning, match="stream a: rows are too far ahead"):
        far.handle.processAllAvailable()
    assert any(progress["ahead"] == {"a": 1} for progress in far.handle.recentProgress)
    for name in "ab":
        far.push(name, times[5:])
    far.handle.processAllAvailable()
    assert far.session.late("a").count() == 0
    assert [row.ts.year for row in far.session.ahead("a").collect()] == [2099]


def test_times_outside_the_calendar_are_set_aside_from_the_first_batch_on(
    quick: SparkSession, tmp_path: Path
) -> None:
    """Spark reads whole numbers in JSON as seconds: milliseconds become the year 58850."""
    rows = tmp_path / "rows"
    rows.mkdir()
    (rows / "a.json").write_text('{"ts": 1700000000000, "x": 1}\n{"ts": 1700000000, "x": 2}\n')
    session = penstock.connect(quick, checkpoint=str(tmp_path / "c"), cells=1)
    frame = quick.readStream.schema("ts TIMESTAMP, x INT").json(str(rows))
    session.create_stream("a", frame, time="ts", ahead="unlimited")
    found: list[Any] = []
    session.query("SELECT x FROM a [RANGE 1 SECOND]").foreach_batch(
        lambda frame, _: found.extend(frame.collect())
    )
    with pytest.warns(penstock.StreamWarning, match="stream a: rows are too far ahead.*check their UNIT"):
        session.start(trigger={"availableNow": True}).awaitTermination()
    assert [row.x for row in found] == [2]
    assert [row.x for row in session.ahead("a").select("x").collect()] == [1]
    assert session.late("a").count() == 0


@pytest.mark.parametrize(("unit", "scale"), [("MILLISECONDS", 1000), ("SECONDS", 1)])
def test_whole_numbers_in_json_count_the_declared_unit(
    quick: SparkSession, tmp_path: Path, unit: str, scale: int
) -> None:
    rows = tmp_path / "rows"
    rows.mkdir()
    (rows / "a.json").write_text(json.dumps({"ts": 1_700_000_000 * scale, "x": 1}) + "\n")
    session = penstock.connect(quick, checkpoint=str(tmp_path / "c"), cells=1)
    session.execute(
        f"CREATE STREAM a (ts TIMESTAMP, x INT) USING json OPTIONS (path '{rows}') WATERMARK ts UNIT {unit}"
    )
    found: list[Any] = []
    session.query("SELECT ts FROM a [RANGE 1 SECOND]").foreach_batch(
        lambda frame, _: found.extend(frame.collect())
    )
    session.start(trigger={"availableNow": True}).awaitTermination()
    assert [row.ts.replace(tzinfo=None) for row in found] == [dt.datetime(2023, 11, 14, 22, 13, 20)]


def test_whole_numbers_in_json_that_are_no_likely_times_are_refused(
    quick: SparkSession, tmp_path: Path
) -> None:
    rows = tmp_path / "rows"
    rows.mkdir()
    (rows / "a.json").write_text(json.dumps({"ts": 1_700_000_000_000, "x": 1}) + "\n")
    session = penstock.connect(quick, checkpoint=str(tmp_path / "c"), cells=1)
    session.execute(
        f"CREATE STREAM a (ts TIMESTAMP, x INT) USING json OPTIONS (path '{rows}') WATERMARK ts DELAY OF INTERVAL 0"
    )
    session.query("SELECT ts FROM a [RANGE 1 SECOND]").foreach_batch(lambda frame, _: frame.count())
    with pytest.raises(penstock.PenstockError, match=r"not a likely time.*UNIT MILLISECONDS"):
        session.start(trigger={"availableNow": True}).awaitTermination()


class Apart:
    """Queries on a and on b, and later one on both; every change by query."""

    def __init__(self, spark: SparkSession, checkpoint: Path, *, both: bool, cells: int = 2) -> None:
        self.session = penstock.connect(spark, checkpoint=str(checkpoint), cells=cells)
        for name in "ab":
            self.session.execute(f"CREATE STREAM {name} (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
        self.session.create_table("t", [{"k": 1, "w": 10}])
        self.changes: dict[str, list[tuple[int, int]]] = {"a": [], "b": [], "t": [], "both": []}
        self._query("a", "SELECT ts, x FROM a [RANGE 5]")
        self._query("b", "SELECT ts, x FROM b [RANGE 5]")
        self._query("t", "SELECT b.ts, t.w AS x FROM b [RANGE 5], t WHERE b.x - b.x + 1 = t.k")
        if both:
            self.connect()
        self.handle: Any = None

    def connect(self) -> None:
        """A query that has to wait for both streams."""
        self._query("both", "SELECT a.ts, b.x FROM a [RANGE 1000], b [RANGE 1000] WHERE a.ts = b.ts")

    def _query(self, name: str, sql: str) -> None:
        kept = self.changes[name]
        made = self.session.query(sql, name=name)
        made.foreach_batch(lambda frame, _: kept.extend((r["ts"], r.x) for r in frame.collect()))

    def push(self, stream: str, times: range) -> None:
        self.session.push(stream, [{"ts": t, "x": t} for t in times])

    def start(self) -> None:
        self.handle = self.session.start(trigger={"processingTime": "0 seconds"})

    def settle(self) -> None:
        """Wait until all that watermarks allow has come."""
        self.handle.processAllAvailable()

    def times(self, name: str) -> list[int]:
        return sorted(ts for ts, _ in self.changes[name])


@pytest.mark.parametrize("cells", [1, 3])
def test_a_silent_stream_holds_back_no_query_that_does_not_read_it(
    quick: SparkSession, tmp_path: Path, cells: int
) -> None:
    run = Apart(quick, tmp_path / "c", both=False, cells=cells)
    run.push("a", range(1000))
    run.start()
    try:
        run.settle()
        assert run.times("a") == list(range(999)), "b has had no row at all"
        last = run.handle.lastProgress
        assert last["clocks"]["a"] == 998
        assert last["clock"] == last["clocks"]["b"] < 0
        assert last["heldBackBy"] is None
        assert sum(last["waiting"].values()) <= 1
        # An update acts beyond the clocks of all queries; one on the slower stream sees it at the same instant.
        run.session.update_table("t", insert=[{"k": 1, "w": 20}], delete=[{"k": 1, "w": 10}])
        run.push("b", range(1200))
        run.settle()
        assert run.times("b") == list(range(1199))
        assert sorted(run.changes["t"]) == [(t, 10 if t < 999 else 20) for t in range(1199)]
    finally:
        run.handle.stop()


@pytest.mark.parametrize("how", ["running", "restarted", "rescaled"])
def test_a_query_that_connects_streams_waits_for_the_slower_one(
    quick: SparkSession, tmp_path: Path, how: str
) -> None:
    """It begins beyond all rows that have come; the others lose nothing meanwhile, also over a restart or with other cells."""
    run = Apart(quick, tmp_path / "c", both=False)
    run.push("a", range(100))
    run.push("b", range(20))
    run.start()
    run.settle()
    run.connect()
    run.push("a", range(100, 150))
    run.settle()
    assert run.times("a") == list(range(100)), "a waits at 99, just before the query's first instant"
    assert run.times("b") == list(range(19))
    earlier = run.changes
    if how != "running":
        run.handle.stop()
        run = Apart(quick, tmp_path / "c", both=True, cells=2 if how == "restarted" else 3)
        run.start()
        run.settle()
    run.push("b", range(20, 150))
    run.push("a", range(150, 160))
    run.settle()
    run.handle.stop()
    found = {name: sorted(ts for ts, _ in [*earlier[name], *rows]) for name, rows in run.changes.items()}
    if how == "running":
        found = {name: run.times(name) for name in run.changes}
    assert found["a"] == found["b"] == list(range(149))
    assert found["both"] == list(range(100, 149))
    assert set(run.session.flow.known.clocks.values()) == {148}
