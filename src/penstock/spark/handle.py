"""What `start` gives back: one flow as Spark runs it, with the calls of a `StreamingQuery`."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.query import StreamingQuery

from penstock.errors import PenstockError, StateError
from penstock.spark.frames import odd_rows

if TYPE_CHECKING:
    from penstock.spark.driver import Flow

QUIET = 1.0
"""Seconds without a batch after which cells are brought to the clock."""
CLAIM_CHECK = 5.0
"""Seconds between two looks whether another driver has taken over the checkpoint."""
INTERRUPTIONS = (
    "java.lang.InterruptedException",
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
    "SPARK_JOB_CANCELLED",
)
"""What Spark says of jobs that it ends because the query they belong to is stopped."""


class Handle:
    """`ends`: the input is finite and the flow ends with it; `flush`: then applies all that has come."""

    def __init__(self, flow: Flow, query: StreamingQuery | None, *, ends: bool, flush: bool) -> None:
        self._flow = flow
        self._query = query
        self._ends = ends
        self._flush = flush
        self._error: BaseException | None = None
        self._stopped = threading.Event()
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._watching, daemon=True, name="penstock-flow")
        self._watch.start()

    def _watching(self) -> None:
        try:
            seen = len(self._flow.progress), time.monotonic()
            checked = time.monotonic()
            while self._query is not None and self._query.isActive:
                time.sleep(0.05)
                if time.monotonic() - checked > CLAIM_CHECK:  # a flow without rows takes no step
                    checked = time.monotonic()
                    self._flow.must_hold()
                if self._flow.step != seen[0]:
                    seen = self._flow.step, time.monotonic()
                elif self._is_quiet(seen[1]) and self._flow.is_behind:
                    self._flow.settle()
            failed = self._query.exception() if self._query is not None else None
            if failed is not None:
                self._error = self._cause(failed)
            elif self._ends and not self._stopped.is_set():
                self._flow.settle()
                if self._flush:
                    self._flow.flush()
        except BaseException as error:  # noqa: BLE001 - told by exception() and awaitTermination()
            self._error = self._cause(error)
            if self._query is not None:
                self._query.stop()  # a flow that has failed takes no more rows
        finally:
            self._over.set()

    def _cause(self, error: BaseException) -> BaseException | None:
        """Why the flow failed; None if it was stopped in the middle of a step, which is repeated at the next start."""
        cause = self._flow.failed or error
        if self._stopped.is_set() and any(name in str(cause) for name in INTERRUPTIONS):
            return None
        return cause

    def _is_quiet(self, since: float) -> bool:
        """Whether no batch comes, so that a step without rows may be due."""
        return not self._ends and self._flow.failed is None and time.monotonic() - since > QUIET

    # ------------------------------------------------------------------ as Spark has it

    @property
    def id(self) -> str | None:
        return None if self._query is None else str(self._query.id)

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        return not self._over.is_set()

    @property
    def status(self) -> dict[str, Any]:
        if self._query is None or not self._query.isActive:
            return {"message": "Stopped", "isDataAvailable": False, "isTriggerActive": False}
        return dict(self._query.status)

    @property
    def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802 - Spark's name
        """The last hundred steps; `unread` tells of rows that could not be placed in time or read as declared."""
        return _with_unread(self._flow.progress, self._query.recentProgress if self._query else [])

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        batch = self._query.lastProgress if self._query else None
        last = _with_unread(self._flow.progress[-1:], [] if batch is None else [batch])
        return last[0] if last else None

    def exception(self) -> BaseException | None:
        """Why the flow ended, if it failed."""
        return self._error

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802 - Spark's name
        """Wait until the flow has ended; False if it has not within `timeout` seconds. Raises what it failed with."""
        over = self._over.wait(timeout)
        if self._error is not None:
            raise self._raised(self._error)
        return over

    def processAllAvailable(self) -> None:  # noqa: N802 - Spark's name
        """Wait until everything that has come is applied as far as the watermarks allow."""
        if self._query is not None and self._query.isActive:
            self._query.processAllAvailable()
        if self._error is not None:
            raise self._raised(self._error)
        self._flow.settle()

    def stop(self) -> None:
        """End the flow; it goes on from its checkpoint when started again."""
        self._stopped.set()
        if self._query is not None:
            self._query.stop()
        self._over.wait(60)
        self._flow.close()

    @staticmethod
    def _raised(error: BaseException) -> BaseException:
        return error if isinstance(error, PenstockError) else StateError(f"the flow failed: {error}")


def _with_unread(steps: list[dict[str, Any]], batches: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Steps with what Spark counted in their batches."""
    seen = {batch["batchId"]: odd_rows(batch) for batch in batches}
    return [{**step, "unread": step["unread"] | seen.get(step["batchId"], {})} for step in steps]
