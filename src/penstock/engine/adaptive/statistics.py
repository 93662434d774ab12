"""What the data are like, counted as they pass: rates, values of columns, shares that pass predicates (`plan.statistics`).

Only for queries that another plan might serve better. Cost: some nanoseconds a row and column that such a query reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import log

import numpy as np

from penstock.kernels.hash.linear_counting import note
from penstock.operators.capabilities import Measures
from penstock.operators.join.anti_join import AntiJoinOperation
from penstock.operators.pipeline import Pipeline
from penstock.plan.nodes import Node, Scan
from penstock.plan.query_root import Root
from penstock.plan.required_columns import Needed, all_of, needed_below
from penstock.plan.statistics import Statistics
from penstock.state import key_words
from penstock.types.batch import Batch
from penstock.types.data_type import Type
from penstock.types.event_time import FOREVER

BITS = 1 << 15
"""Of a column: good for some hundred thousand values."""


class Values:
    """How many values a column takes."""

    def __init__(self) -> None:
        self._bits = np.zeros(BITS, np.bool_)
        self._set = 0

    def see(self, batch: Batch, column: int, type_: Type) -> None:
        self._set += note(key_words.plain(batch.columns[column], type_), self._bits)

    @property
    def number(self) -> float:
        """By linear counting; what fills all bits counts as one value more a bit."""
        return -BITS * log(max(BITS - self._set, 1) / BITS)


class Measured:
    """Of one query's streams, since it was last looked at anew."""

    def __init__(self, root: Root) -> None:
        self._columns = {
            (scan.stream.name.lower(), i): scan.stream.schema[i]
            for scan, needed in _scans(root.node, all_of(root.node))
            for i in needed
            if i != scan.stream.time
        }
        self._streams = {scan.stream.name.lower() for scan, _ in _scans(root.node, all_of(root.node))}
        self.begin()

    def begin(self) -> None:
        """Count anew: what was long ago says little."""
        self._since = FOREVER
        self._rows = dict.fromkeys(self._streams, 0)
        self._values = {key: Values() for key in self._columns}

    def see(self, feeds: Mapping[tuple[str, str], Batch]) -> None:
        """The rows of a step."""
        for name in self._streams:
            batch = feeds.get(("stream", name))
            if batch is not None and len(batch):
                self._rows[name] += len(batch)
                self._since = min(self._since, int(batch.ts[0]))
        for (name, column), values in self._values.items():
            batch = feeds.get(("stream", name))
            if batch is not None and len(batch):
                values.see(batch, column, self._columns[name, column].type)

    @property
    def rows(self) -> int:
        return sum(self._rows.values())

    def statistics(self, pipeline: Pipeline, tables: Mapping[str, int], now: int) -> Statistics:
        """What is known by `now`, from the streams and from the operators that run."""
        span = max(now + 1 - self._since, 1)
        rates = {name: max(rows, 0.5) / span for name, rows in self._rows.items()}
        distincts = {
            (name, self._columns[name, column].name.lower()): max(values.number, 1.0)
            for (name, column), values in self._values.items()
        }
        return counted(pipeline, rates, tables, distincts)


def counted(
    pipeline: Pipeline,
    rates: Mapping[str, float],
    tables: Mapping[str, int],
    distincts: Mapping[tuple[str, str], float] | None = None,
) -> Statistics:
    """What a pipeline's operators have counted, with what is known of the streams."""
    operators = [one for one, _ in pipeline.stages]
    shares = {k: v for one in operators if isinstance(one, Measures) for k, v in one.shares().items()}
    matches = {
        k: v for one in operators if isinstance(one, AntiJoinOperation) for k, v in one.matched().items()
    }
    sizes = {name: float(size) for name, size in tables.items()}
    return Statistics(rates, distincts or {}, shares, matches, sizes)


def _scans(node: Node, needed: Needed) -> Iterator[tuple[Scan, Needed]]:
    """Every stream of a plan, and which of its columns are read."""
    if isinstance(node, Scan):
        yield node, needed
    for below, read in zip(node.inputs, needed_below(node, needed), strict=True):
        yield from _scans(below, read)
