"""The same join as a Penstock flow, its results to the same kind of sink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock_lab.benchmarks.spark import files, runs
from penstock_lab.benchmarks.spark.joins import Join
from penstock_lab.benchmarks.spark.runs import Run


def opened(spark: Any, join: Join, folder: Path, checkpoint: str) -> tuple[Any, Any]:
    """A session with the join's streams, and its query."""
    import penstock

    session = penstock.connect(spark, checkpoint=checkpoint)
    for name in join.streams:
        session.create_stream(name, files.stream(spark, folder, name), time="ts", delay=0)
    return session, session.query(join.own_text(), name="bench")


def run(spark: Any, join: Join, folder: Path, checkpoint: str, *, sums: bool = False) -> Run:
    """Every step's results to nowhere, in the columns that Spark's join has; counted and summed on the way, if asked for."""
    from pyspark.sql import Observation

    done = Run()

    def take(frame: Any, step: int) -> None:
        frame = frame.select(*(name for name in frame.columns if not name.startswith("__")))
        watch = Observation(f"step {step}")
        (runs.observed(frame, watch) if sums else frame).write.format("noop").mode("append").save()
        if sums:
            done.add(watch.get)

    session, query = opened(spark, join, folder, checkpoint)
    query.foreach_batch(take)
    done.batches, handle = runs.flow(spark, session)
    handle.stop()
    return done
