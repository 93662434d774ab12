"""What a streaming query took, batch by batch as Spark itself reports it, and sums over what it gave."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WARM = 2
"""Batches that are not counted: Python workers and cells start, kernels load, windows fill. Every batch brings
at least one window's worth of rows, so after two of them as many rows leave the state as come."""


@dataclass(slots=True)
class Run:
    """Batches with rows, as (rows, milliseconds from trigger to commit), and the sums of all results."""

    batches: list[tuple[int, float]] = field(default_factory=list)
    sums: dict[str, int] = field(default_factory=dict)

    def pace(self, warm: int = WARM) -> float:
        """Rows a second once warm."""
        counted = self.batches[warm:]
        return 1000 * sum(rows for rows, _ in counted) / sum(took for _, took in counted)

    def add(self, found: dict[str, Any]) -> None:
        """Sums over one more batch; a sum over nothing is NULL."""
        for name, value in found.items():
            self.sums[name] = self.sums.get(name, 0) + (value or 0)


def observed(frame: Any, watch: Any) -> Any:
    """The frame, with the count of its rows and the sums of its columns told to `watch` while it is written.

    Spark adds up row by row, which takes longer than to make the row: not where time is taken.
    """
    from pyspark.sql import functions

    sums = [functions.sum(name).alias(name) for name in frame.columns]
    return frame.observe(watch, functions.count(functions.lit(1)).alias("rows"), *sums)


def batches(progress: list[Any]) -> list[tuple[int, float]]:
    """From a StreamingQuery's progress."""
    found = [(int(p["numInputRows"]), float(p["durationMs"]["triggerExecution"])) for p in progress]
    return [(rows, took) for rows, took in found if rows]


def native(query: Any) -> Run:
    """A streaming query of Spark's own, run to its end."""
    query.awaitTermination()
    run = Run(batches(query.recentProgress))
    for progress in query.recentProgress:
        for row in progress["observedMetrics"].values():
            run.add(row.asDict())
    return run


def flow(spark: Any, session: Any) -> tuple[list[tuple[int, float]], Any]:
    """A Penstock flow run to the end of its input: Spark's own account of its batches, and its handle."""
    handle = session.start(trigger={"availableNow": True})
    query = spark.streams.get(handle.id)
    handle.awaitTermination()
    return batches(query.recentProgress), handle


@contextlib.contextmanager
def set_to(spark: Any, settings: dict[str, str | None]) -> Iterator[None]:
    """Settings for the queries started within; None is Spark's default."""
    before = {key: spark.conf.get(key, None) for key in settings}

    def put(values: dict[str, str | None]) -> None:
        for key, value in values.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)

    put(settings)
    try:
        yield
    finally:
        put(before)


class Places:
    """Folders for input files, and fresh checkpoint directories."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._made = 0

    def folder(self, name: str) -> Path:
        return self._root / "files" / name

    def new(self) -> str:
        self._made += 1
        return str(self._root / "checkpoints" / str(self._made))
