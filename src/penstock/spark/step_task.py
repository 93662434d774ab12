"""How the driver asks cells for a step, and what it hears: the task that goes to every partition, and answers in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Observation

from penstock.errors import StateError
from penstock.plan.catalog import Function
from penstock.spark.parquet_reader import Files
from penstock.spark.shuffle import COUNT, NEWEST
from penstock.spark.stopped_queries import error_of
from penstock.spark.worker_link import Run
from penstock.types.event_time import LATEST

ANSWER = "answer STRING, carried BINARY"
"""What a task gives."""

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def task(
    run: Run,
    root: str,
    cells: int,
    header: dict[str, Any],
    functions: Mapping[str, Function],
    files: Files | None,
) -> Task:
    """Gives a cell, which is the partition, the rows of a step and the files to read, and waits for its answer."""
    code: bytes = cloudpickle.dumps(functions) if functions else b""  # type: ignore[no-untyped-call]

    def asked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        from penstock.spark import worker_process

        context = TaskContext.get()
        assert context is not None
        answer, carried = worker_process.deliver(
            run, root, context.partitionId(), cells, header, batches, code, files
        )
        columns = [pa.array([json.dumps(answer)]), pa.array([carried], pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, ["answer", "carried"])

    return asked


def raise_errors(answers: Iterable[dict[str, Any]]) -> None:
    """As the error it was in the cell."""
    for answer in answers:
        if "error" in answer:
            raise error_of(answer)


def must_be_all(answers: Iterable[dict[str, Any]], cells: int) -> None:
    """Refuse a step that some cell has not had, before anything is made of it."""
    missing = set(range(cells)) - {int(answer["cell"]) for answer in answers}
    if missing:
        raise StateError(
            f"Spark ran no task for cell {min(missing)} of {cells}",
            hint="start the flow again; if this comes back, set spark.sql.adaptive.enabled=false",
        )


def seen(watch: Observation, ceilings: Mapping[str, int]) -> dict[str, Any]:
    """What Spark saw of a step's rows, in the form of a cell's answer. Of a stream with rows beyond its ceiling cells know the newest of
    the others."""
    seen = watch.get
    newest = {name[1:]: int(at) for name, at in seen.items() if name[0] == NEWEST and at is not None}
    newest = {name: at for name, at in newest.items() if at <= ceilings.get(name, LATEST)}
    rows = {name[1:]: int(count) for name, count in seen.items() if name[0] == COUNT}
    nothing: dict[str, Any] = {
        "clocks": {},
        "upper": {},
        "shown": {},
        "out": {},
        "matched": {},
        "ranked": {},
        "promising": {},
        "partial": {},
        "late": {},
        "ahead": {},
        "waiting": {},
        "inner": {},
        "sieves": {},
        "sifted": {},
    }
    return {**nothing, "newest": newest, "rows": rows, "ms": 0.0, "state_bytes": 0}
