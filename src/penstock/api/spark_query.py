"""A standing query of a flow on Spark, and the sinks that take its answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.api.query import Query
from penstock.api.validation import checked_name, interval
from penstock.errors import DataError, PenstockError, StateError
from penstock.overload.dropped_rows import dropped_schema
from penstock.overload.spj_plan import cores
from penstock.spark import frames
from penstock.spark.sinks import formats
from penstock.spark.sinks.contract import FunctionSink, OutputSink

if TYPE_CHECKING:
    from penstock.api.spark_session import SparkSession


class SparkQuery(Query):
    """A standing query of a flow; its changes go to the sinks named for it."""

    _session: SparkSession

    @property
    def matched(self) -> int:
        """How many results there have been since this process started the flow."""
        return self._session.flow.matched.get(self.name, 0)

    @property
    def size_bytes(self) -> int:
        raise StateError("on Spark state is counted per flow", hint="see stateBytes in lastProgress")

    def exception(self) -> PenstockError | None:
        """The error at which the query stopped, if it did; others go on."""
        return self._session.flow.stopped.errors.get(self.name)

    def _weigh(self, weight: float) -> None:
        """From the next step on, in every cell."""
        super()._weigh(weight)
        with self._session.flow.lock:
            if self.name in self._session.flow.declared.queries:
                self._session.flow.declared.weights[self.name] = weight

    def changes(self) -> pa.Table:
        raise StateError(
            "on Spark changes go to sinks", hint="use foreach_batch, write or to_table before start"
        )

    def snapshot(self, at: object = None) -> pa.Table:
        raise StateError("on Spark the current answer goes to a sink", hint='use to_table(name, mode="view")')

    def dropped(self) -> Any:
        """With `connect(…, budget=…, keep_dropped=…)`: rows that expired or were shed, as a DataFrame; a row that goes to several cells is dropped by
        each for itself."""
        flow = self._session.flow
        if not flow.declared.policies.keep_dropped or flow.declared.policies.budget is None:
            raise StateError(
                f"nothing is kept of what query {self.name} drops",
                hint="connect(…, budget=…, keep_dropped=True)",
            )
        with flow.lock, self._session.beginning(self.name):
            root = flow.root(self.name)
        schema = dropped_schema(cores(root, "core")[1], flow.time_type)
        return frames.dropped(self._session.spark, schema, flow.store.dropped(self.name))

    # ------------------------------------------------------------------ sinks

    def foreach_batch(self, function: Callable[[Any, int], None], *, mode: str = "changes") -> SparkQuery:
        """`function(frame, step)` for every step with changes; a step repeated after a crash has the same number.

        With `mode="view"` the frame is the answer as of the step's watermarks, after every step.
        """
        if not callable(function):
            raise DataError(f"{function!r} cannot be called")
        return self._attach(lambda: FunctionSink(function), _is_view(mode))

    def write(
        self,
        format: str = "parquet",  # noqa: A002 - what Spark calls it
        path: str | None = None,
        *,
        mode: str = "changes",
        **options: str,
    ) -> SparkQuery:
        """Append every step's changes; `mode="view"` keeps the current answer there instead.

        `retention="5 minutes"`: how long files of a replaced answer stay for readers (default one minute).
        """
        flow, view = self._session.flow, _is_view(mode)
        retention = _retention(options)
        return self._attach(
            lambda: formats.writer(flow, self.name, format, path, view, options, retention), view
        )

    def to_table(self, name: str, *, mode: str = "changes", **options: str) -> SparkQuery:
        """Into a table of Spark's catalog, made when the flow starts if it is not there; options as `write` has them."""
        table, flow, view = checked_name(name, "a table"), self._session.flow, _is_view(mode)
        retention = _retention(options)
        return self._attach(lambda: formats.table(flow, self.name, table, view, options, retention), view)

    def _attach(self, make_sink: Callable[[], OutputSink], view: bool) -> SparkQuery:
        """Add a sink, all or nothing: if it is refused, the query is as it was before."""
        flow, name = self._session.flow, self.name
        with flow.lock, self._session.beginning(name):
            sink = make_sink()
            frame, columns = (
                (formats.current, formats.current_columns)
                if view
                else (formats.changed, formats.changed_columns)
            )
            kept = list(flow.declared.kept)
            if view:
                flow.keep(name)
            try:
                self._session.prepare(name, lambda: sink.prepare(columns(flow, name)))
            except BaseException:
                flow.declared.kept = kept
                raise
            takers = flow.views if view else flow.sinks
            takers.setdefault(name, []).append(lambda step, _: sink(frame(flow, name), step))
        return self


def _is_view(mode: str) -> bool:
    if mode not in ("changes", "view"):
        raise StateError(f"mode {mode!r} is unknown", hint="changes or view")
    return mode == "view"


def _retention(options: dict[str, str]) -> int:
    """Take the retention of a view out of the options, in milliseconds."""
    if "retention" not in options:
        return formats.RETENTION
    return interval(str(options.pop("retention")), "a retention") // 1000
