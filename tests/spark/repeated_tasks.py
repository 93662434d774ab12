"""A flow on a plain Spark that repeats tasks; the first attempt of every task that writes to a sink fails at its end.

    python -m tests.spark.repeated_tasks FOLDER

Prints, as one JSON object, what each sink holds, what an undisturbed engine says, and how many attempts failed.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import penstock
from penstock.spark.sinks import formats

DECLARED = "CREATE STREAM a (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF INTERVAL 3"
PICKED = "SELECT x, y FROM a [RANGE 10] WHERE y > 1"
SUMS = "SELECT x, SUM(y) AS t, COUNT(*) AS n FROM a [RANGE 20] GROUP BY x"


def failing_at_first(marks: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Passes rows on; a first attempt then fails, once its rows have been written."""

    def fails(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from batches
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0:
            (Path(marks) / str(context.taskAttemptId())).touch()
            raise OSError("lost")

    return fails


def disturbed(frame_of: Callable[..., Any], marks: Path) -> Callable[..., Any]:
    def made(*given: Any) -> Any:
        frame = frame_of(*given)
        return frame.mapInArrow(failing_at_first(str(marks)), frame.schema)

    return made


def compared(rows: list[Any], columns: list[str]) -> list[list[Any]]:
    return sorted([row[c] for c in columns] for row in rows)


def main(folder: Path) -> None:
    marks = folder / "failed"
    marks.mkdir()
    for name in ("changed", "current", "together"):
        setattr(formats, name, disturbed(getattr(formats, name), marks))
    spark = SparkSession.builder.master("local[2,4]").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    here = penstock.connect()
    there = penstock.connect(spark, checkpoint=str(folder / "checkpoint"), cells=2)
    for session in (here, there):
        session.execute(DECLARED)
        session.query(PICKED, name="picked")
        session.query(SUMS, name="sums")
    paths = {name: str(folder / name) for name in ("parquet", "json", "view", "all")}
    there.queries["picked"].write(path=paths["parquet"]).write("json", paths["json"]).to_table("changes")
    there.queries["sums"].write(path=paths["view"], mode="view").to_table("sums", mode="view")
    there.write(path=paths["all"])
    rng = random.Random(7)
    rows = [{"ts": t, "x": rng.randrange(4), "y": rng.randrange(9)} for t in range(60)]
    handle = there.start(trigger={"processingTime": "0 seconds"})
    for part in range(3):
        for session in (here, there):
            session.push("a", rows[20 * part : 20 * part + 20])
        handle.processAllAvailable()
    handle.stop()
    changes, answer = here.queries["picked"].changes(), here.queries["sums"].snapshot()
    schema = formats.changed_columns(there.flow, "picked")
    found = {
        "parquet": spark.read.parquet(paths["parquet"]),
        "json": spark.read.schema(schema).json(paths["json"]),
        "changes": spark.table("changes"),
        "all": spark.read.parquet(paths["all"]).where("__query = 'picked'"),
        "view": spark.read.parquet(paths["view"]),
        "sums": spark.table("sums"),
    }
    print(
        json.dumps(
            {
                "found": {
                    name: compared(
                        frame.collect(),
                        answer.column_names if name in ("view", "sums") else changes.column_names,
                    )
                    for name, frame in found.items()
                },
                "changes": compared(changes.to_pylist(), changes.column_names),
                "answer": compared(answer.to_pylist(), answer.column_names),
                "failed": len(list(marks.iterdir())),
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
