"""Files and tables that sinks write: what readers see, and what a failure leaves behind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.spark import hadoop
from penstock.spark.sinks import files
from penstock.spark.sinks.files import ChangeFiles, ViewFiles
from penstock.spark.sinks.tables import TableSink

SCHEMA = "version INT, x INT"


def answer(spark: SparkSession, version: int, rows: int = 3) -> DataFrame:
    return spark.createDataFrame([(version, x) for x in range(rows)], SCHEMA)


def view_at(spark: SparkSession, path: Path, *, kind: str = "parquet", retention: int = 60_000) -> ViewFiles:
    view = ViewFiles(spark, str(path), kind, "flow", {}, retention)
    view.prepare(SCHEMA)
    return view


def table_at(spark: SparkSession, name: str, flow: str = "flow", *, view: bool = True) -> TableSink:
    def make_sink(kind: str, location: str) -> Any:
        if view:
            return ViewFiles(spark, location, kind, flow, {}, 60_000)
        return ChangeFiles(spark, location, kind, flow, flow, {})

    return TableSink(spark, name, flow, make_sink, view=view, options={})


def rows(frame: DataFrame) -> list[tuple[int, int]]:
    return sorted(tuple(row) for row in frame.collect())


def shown(version: int, count: int = 3) -> list[tuple[int, int]]:
    return [(version, x) for x in range(count)]


@pytest.mark.parametrize("kind", ["parquet", "json", "csv", "orc"])
def test_a_reader_sees_the_whole_answer_that_it_began_with(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "a view =[1]"
    view = view_at(spark, path, kind=kind)
    assert rows(spark.read.schema(SCHEMA).format(kind).load(str(path))) == []
    for version in range(1, 4):
        view(answer(spark, version), version)
        begun = spark.read.schema(SCHEMA).format(kind).load(str(path))
        view(answer(spark, 10 * version), version)
        assert rows(begun) == shown(version), "files are replaced, not changed"
        assert rows(spark.read.schema(SCHEMA).format(kind).load(str(path))) == shown(10 * version)


def test_the_schema_of_a_view_can_be_inferred_before_its_first_step(
    spark: SparkSession, tmp_path: Path
) -> None:
    view = view_at(spark, tmp_path / "view")
    assert spark.read.parquet(str(tmp_path / "view")).dtypes == [("version", "int"), ("x", "int")]
    view(answer(spark, 1), 1)
    assert rows(spark.read.parquet(str(tmp_path / "view"))) == shown(1)


def test_other_readers_find_the_answer_alone(spark: SparkSession, tmp_path: Path) -> None:
    """A reader that lists the directory itself, and one that has a file open while it is replaced."""
    view = view_at(spark, tmp_path / "view")
    view(answer(spark, 1), 1)
    (current,) = (tmp_path / "view").glob("current*")
    with current.open("rb") as opened:
        view(answer(spark, 2), 2)
        assert current.read_bytes() != opened.read()
    found = ds.dataset(tmp_path / "view", format="parquet").to_table()
    assert sorted(map(tuple, (row.values() for row in found.to_pylist()))) == shown(2)


def test_answers_replaced_long_ago_are_deleted(spark: SparkSession, tmp_path: Path) -> None:
    view = view_at(spark, tmp_path / "view", retention=3_600_000)
    pointers = tmp_path / "view" / "_spark_metadata"
    for version in range(1, 6):
        view(answer(spark, version), version)
    assert len(list(pointers.glob("*.compact"))) == 6
    for place in pointers.iterdir():
        os.utime(place, (1, 1))
    view(answer(spark, 6), 6)
    assert sorted(p.name for p in pointers.glob("*.compact")) == ["5.compact", "6.compact"]
    assert len(list((tmp_path / "view").glob("_view=*"))) == 2
    assert rows(spark.read.parquet(str(tmp_path / "view"))) == shown(6)


def test_a_view_goes_on_after_a_run_that_died_before_publishing(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "view"
    view_at(spark, path)(answer(spark, 1), 1)
    dying = view_at(spark, path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hadoop.HadoopDirectory, "write", killed)
        with pytest.raises(OSError, match="killed"):
            dying(answer(spark, 2), 2)
    assert len(list(path.glob("_view=000000000002-*"))) == 1
    assert rows(spark.read.parquet(str(path))) == shown(1)
    after = view_at(spark, path)
    assert not list(path.glob("_view=000000000002-*"))
    after(answer(spark, 2), 2)
    assert rows(spark.read.parquet(str(path))) == shown(2)


def killed(*_: Any) -> None:
    raise OSError("killed")


OPERATIONS = ("create", "delete", "move", "write", "sync", "sync_names")


class Crash(BaseException):
    """The driver ends here: nothing that comes after is done."""


def dying_at(operation: int, patch: pytest.MonkeyPatch) -> None:
    """Let the process end in front of one of the operations on the directory, counted from now."""
    left = [operation]

    def counted(real: Any) -> Any:
        def wrapped(*given: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Crash
            return real(*given)

        return wrapped

    for name in OPERATIONS:
        patch.setattr(hadoop.HadoopDirectory, name, counted(getattr(hadoop.HadoopDirectory, name)))


@pytest.mark.parametrize("is_view", [True, False])
def test_a_crash_at_any_operation_of_a_step_is_made_up_for_by_its_repetition(
    spark: SparkSession, tmp_path: Path, is_view: bool
) -> None:
    def started() -> Any:
        if is_view:
            return view_at(spark, tmp_path)
        sink = ChangeFiles(spark, str(tmp_path), "parquet", "flow", "w", {})
        sink.prepare(SCHEMA)
        return sink

    def dies_at(operation: int, sink: Any, frame: DataFrame, step: int) -> bool:
        with pytest.MonkeyPatch.context() as patch:
            dying_at(operation, patch)
            try:
                sink(frame, step)
            except Crash:
                return True
        return False

    step = 0
    before: list[tuple[int, int]] = []
    while dies_at(step, started(), frame := answer(spark, step).coalesce(1).cache(), step):
        after = shown(step) if is_view else [*before, *shown(step)]
        between = rows(spark.read.schema(SCHEMA).parquet(str(tmp_path)))
        assert between in (before, after), f"killed in front of operation {step}"
        started()(frame, step)
        assert rows(spark.read.schema(SCHEMA).parquet(str(tmp_path))) == after
        before, step = after, step + 1
    assert step >= 4


def test_two_writers_of_one_view_are_told(spark: SparkSession, tmp_path: Path) -> None:
    one, other = view_at(spark, tmp_path / "view"), view_at(spark, tmp_path / "view")
    one(answer(spark, 1), 1)
    with pytest.raises(penstock.StateError, match="is written by another flow or query"):
        other(answer(spark, 2), 1)
    assert rows(spark.read.parquet(str(tmp_path / "view"))) == shown(1)


def test_a_view_and_other_files_are_kept_apart(spark: SparkSession, tmp_path: Path) -> None:
    answer(spark, 1).write.parquet(str(tmp_path / "others"))
    with pytest.raises(penstock.DataError, match="which no view wrote"):
        view_at(spark, tmp_path / "others")
    assert rows(spark.read.parquet(str(tmp_path / "others"))) == shown(1)
    view_at(spark, tmp_path / "view")
    with pytest.raises(penstock.DataError, match="holds a view"):
        ChangeFiles(spark, str(tmp_path / "view"), "parquet", "flow", "w", {}).prepare(SCHEMA)


# ---------------------------------------------------------------------- changes


def test_a_repeated_step_replaces_its_files(spark: SparkSession, tmp_path: Path) -> None:
    sink = ChangeFiles(spark, str(tmp_path / "out"), "parquet", "flow", "w", {})
    sink.prepare(SCHEMA)
    sink(answer(spark, 1, 20).repartition(3), 1)
    sink(answer(spark, 2), 2)
    sink(answer(spark, 1, 20).repartition(2), 1)
    assert rows(spark.read.parquet(str(tmp_path / "out"))) == [*shown(1, 20), *shown(2)]
    assert not list((tmp_path / "out" / "_penstock").glob("0*"))


@pytest.mark.parametrize("is_view", [True, False])
def test_a_driver_that_was_replaced_publishes_nothing(
    spark: SparkSession, tmp_path: Path, is_view: bool
) -> None:
    """It notices once its files are written and before any of them has its name."""
    fenced: list[int] = []

    def fence() -> None:
        if fenced:
            raise penstock.StateError("replaced")

    sink: Any
    if is_view:
        sink = ViewFiles(spark, str(tmp_path), "parquet", "flow", {}, 60_000, fence)
    else:
        sink = ChangeFiles(spark, str(tmp_path), "parquet", "flow", "w", {}, fence)
    sink.prepare(SCHEMA)
    sink(answer(spark, 1), 1)
    fenced.append(2)
    with pytest.raises(penstock.StateError, match="replaced"):
        sink(answer(spark, 2), 2)
    assert rows(spark.read.parquet(str(tmp_path))) == shown(1)
    again: Any = (
        view_at(spark, tmp_path) if is_view else ChangeFiles(spark, str(tmp_path), "parquet", "flow", "w", {})
    )
    again.prepare(SCHEMA)
    assert [place.name for place in (tmp_path / "_penstock").iterdir()] == ["flows"], "nothing is left behind"


def test_two_drivers_that_write_the_same_step_write_its_rows_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The second writes all of a step after the first has written its files and before it renames them."""
    second = ChangeFiles(spark, str(tmp_path), "parquet", "flow", "w", {})
    second.prepare(SCHEMA)
    frame = answer(spark, 1).coalesce(1).cache()
    first = ChangeFiles(spark, str(tmp_path), "parquet", "flow", "w", {}, lambda: second(frame, 1))
    first(frame, 1)
    assert rows(spark.read.parquet(str(tmp_path))) == shown(1)


class Refusing:
    """Hadoop's file system, but for one rename, which it reports as failed as Hadoop does."""

    def __init__(self, real: Any, refused: str) -> None:
        self._real, self._refused = real, refused

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def rename(self, source: Any, target: Any) -> bool:
        return self._refused not in target.toString() and self._real.rename(source, target)


@pytest.mark.parametrize("refused", ["step-", "_view=", ".compact"])
def test_a_rename_that_fails_is_an_error(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    path = tmp_path / "out"
    real = hadoop.file_system
    sink: Any
    if refused == "step-":
        sink = ChangeFiles(spark, str(path), "parquet", "flow", "w", {})
        sink.prepare(SCHEMA)
    else:
        sink = view_at(spark, path)
    sink(answer(spark, 1), 1)
    monkeypatch.setattr(hadoop, "file_system", lambda *where: Refusing(real(*where), refused))
    with pytest.raises(penstock.StateError, match="cannot be renamed"):
        sink(answer(spark, 2), 2)
    assert rows(spark.read.parquet(str(path))) == shown(1)
    monkeypatch.setattr(hadoop, "file_system", real)
    sink(answer(spark, 2), 2)
    expected = [*shown(1), *shown(2)] if refused == "step-" else shown(2)
    assert rows(spark.read.parquet(str(path))) == expected


def test_a_directory_in_the_place_of_a_file_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    """Hadoop would move the file into it, where no reader looks."""
    sink = ChangeFiles(spark, str(tmp_path / "out"), "parquet", "flow", "w", {})
    sink.prepare(SCHEMA)
    taken = tmp_path / "out" / "step-000000000001-w-0.snappy.parquet"
    (taken / "inner").mkdir(parents=True)
    with pytest.raises(penstock.StateError, match="cannot be renamed"):
        sink(answer(spark, 1).coalesce(1), 1)


def test_what_a_step_wrote_is_on_disk_before_the_step_is_done(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file and every directory that leads to it is flushed before `done/` names the step."""
    synced: list[str] = []
    at_done: dict[str, list[str]] = {}
    real_sync, real_replace = os.fsync, Path.replace

    def sync(handle: int) -> None:
        real_sync(handle)
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))

    def replace(place: Path, target: Any) -> Path:
        if Path(target).parent.name == "done":
            at_done.setdefault(Path(target).name, list(synced))
        return real_replace(place, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "replace", replace)
    session = penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=1)
    session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    query = session.query("SELECT x FROM a [RANGE 10]", name="q")
    query.write(path=str(tmp_path / "new" / "deep" / "changes"))
    query.write(path=str(tmp_path / "new" / "deep" / "view"), mode="view")
    session.push("a", [{"ts": 1, "x": 1}])
    handle = session.start(trigger={"availableNow": True})
    handle.awaitTermination()
    handle.stop()
    number = max(at_done)[:12]
    before = at_done[f"{number}.json"]
    base = tmp_path / "new" / "deep"
    for folder in (tmp_path, tmp_path / "new", base, base / "changes", base / "view"):
        assert str(folder) in before, folder
    assert str(base / "view" / "_spark_metadata") in before
    staged = [place for place in before if f"/changes/_penstock/{number}-" in place]
    assert any(place.endswith(".parquet") for place in staged)
    assert any(place.endswith(".parquet.crc") for place in staged)
    assert any("/view/_penstock/view-" in place and place.endswith(".parquet") for place in before)


# ---------------------------------------------------------------------- tables


def test_a_table_that_the_catalog_forgot_is_taken_up_again(spark: SparkSession) -> None:
    """Its files are where the catalog would put a new table of that name."""
    warehouse = Path(str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:"))
    view_at(spark, warehouse / "forgotten_view")(answer(spark, 1), 1)
    table = table_at(spark, "forgotten_view")
    table.prepare(SCHEMA)
    assert rows(spark.table("forgotten_view")) == shown(1), "until the next step, the last answer"
    table(answer(spark, 2), 2)
    assert rows(spark.table("forgotten_view")) == shown(2)

    before = ChangeFiles(spark, str(warehouse / "forgotten"), "parquet", "flow", "flow", {})
    before.prepare(SCHEMA)
    before(answer(spark, 1), 1)
    changes = table_at(spark, "forgotten", view=False)
    changes.prepare(SCHEMA)
    changes(answer(spark, 2), 2)
    assert rows(spark.table("forgotten")) == [*shown(1), *shown(2)]


def test_files_of_others_are_not_taken_for_a_table(spark: SparkSession) -> None:
    warehouse = Path(str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:"))
    other = ChangeFiles(spark, str(warehouse / "of_others"), "parquet", "another", "w", {})
    other.prepare(SCHEMA)
    other(answer(spark, 1), 1)
    with pytest.raises(penstock.DataError, match="holds files that this flow has not written"):
        table_at(spark, "of_others", view=False).prepare(SCHEMA)
    assert not spark.catalog.tableExists("of_others")


def test_a_table_is_there_before_the_first_step(spark: SparkSession, tmp_path: Path) -> None:
    session = penstock.connect(spark, checkpoint=str(tmp_path), cells=1)
    session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    query = session.query("SELECT x, COUNT(*) AS n FROM a [RANGE 10] GROUP BY x", name="counts")
    query.to_table("counts_now", mode="view").to_table("counts_changes")
    session.to_table("all_changes")
    handle = session.start(trigger={"processingTime": "1 hour"})
    try:
        assert spark.table("counts_now").dtypes == [("x", "int"), ("n", "bigint")]
        assert spark.table("counts_now").collect() == []
        assert spark.table("counts_changes").columns == ["__op", "__ts", "__exp", "x", "n"]
        assert spark.table("all_changes").columns[0] == "__query"
        assert spark.table("all_changes").collect() == []
    finally:
        handle.stop()


def test_a_table_dropped_while_the_flow_runs_is_made_again(spark: SparkSession) -> None:
    table = table_at(spark, "dropped_view")
    table.prepare(SCHEMA)
    table(answer(spark, 1), 1)
    spark.sql("DROP TABLE dropped_view")
    table(answer(spark, 2), 2)
    assert rows(spark.table("dropped_view")) == shown(2)


def test_the_pointer_is_what_sparks_own_sink_writes(spark: SparkSession, tmp_path: Path) -> None:
    """The layout is Spark's, so a change of it in a later Spark must not go unnoticed."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"version": 1, "x": 0}\n')
    source = spark.readStream.schema(SCHEMA).json(str(tmp_path / "in"))
    stream = source.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    stream.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    theirs = (tmp_path / "out" / "_spark_metadata" / "0").read_text().splitlines()
    view_at(spark, tmp_path / "view")
    ours = (tmp_path / "view" / "_spark_metadata" / "0.compact").read_text().splitlines()
    assert ours[0] == theirs[0] == files.LOG_VERSION
    fields = [[part.split(":")[0] for part in line[1].split(",")] for line in (ours, theirs)]
    assert fields[0] == fields[1]
