"""Kill tasks in the middle of the rows that they write to a sink, of every kind of sink; Spark repeats them."""

from __future__ import annotations

import functools
import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from penstock.spark.sinks import kafka
from penstock.spark.sinks.contract import FunctionSink
from penstock.spark.sinks.files import ChangeFiles, ViewFiles
from penstock.spark.sinks.tables import TableSink

RATE = 0.05
"""How often a sink's task is killed."""
FIRST_RATE = 0.5
"""The same for a kind of sink that it has not happened to yet."""
TOPIC = "kafka topic"
KINDS = (
    "parquet files",
    "json files",
    "orc files",
    "parquet view",
    "table",
    "table as view",
    "function",
    TOPIC,
)

Batches = Iterator[pa.RecordBatch]
Pass = Callable[[Batches], Batches]


class Torn:
    """Which tasks were killed: a line with the kind of its sink for each, in a file that outlives the job."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._nested = False
        """Within a sink that writes through another one."""

    def tear_sinks(self) -> None:
        """From now on, for all sinks of this process."""
        patched: Any
        for patched, kind in (
            (ChangeFiles, lambda sink: f"{sink._kind} files"),
            (ViewFiles, lambda sink: f"{sink._kind} view"),
            (TableSink, lambda sink: "table as view" if sink._view else "table"),
            (FunctionSink, lambda _: "function"),
        ):
            patched.__call__ = self._torn_call(patched.__call__, kind)
        kafka._send_once = self._torn_send(kafka._send_once)

    def _torn_call(self, call: Callable[..., None], kind_of: Callable[[Any], str]) -> Callable[..., None]:
        @functools.wraps(call)
        def torn(sink: Any, frame: DataFrame, step: int) -> None:
            kind = kind_of(sink)
            if self._nested or not self._drawn(kind):
                call(sink, frame, step)
                return
            self._nested = True
            try:
                call(sink, frame.mapInArrow(killed_halfway(kind, self.place), frame.schema), step)
            finally:
                self._nested = False

        return torn

    def _torn_send(self, send_once: Callable[[str], Pass]) -> Callable[[str], Pass]:
        """The task that sends messages to a topic reads them from another one: it is killed behind that exchange."""

        def torn(claims: str) -> Pass:
            passed = send_once(claims)
            if not self._drawn(TOPIC):
                return passed
            halfway = killed_halfway(TOPIC, self.place)
            return lambda batches: halfway(passed(batches))

        return torn

    def _drawn(self, kind: str) -> bool:
        happened = self.place.exists() and kind in self.place.read_text().splitlines()
        return random.random() < (RATE if happened else FIRST_RATE)


def killed_halfway(kind: str, place: Path) -> Pass:
    """Passes rows on; the first attempt of a task is killed after half of its first batch."""

    def halfway(batches: Batches) -> Batches:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            if context.attemptNumber() == 0 and batch.num_rows:
                yield batch.slice(0, batch.num_rows // 2)
                with place.open("a") as file:
                    file.write(f"{kind}\n")
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    return halfway
