"""Many standing queries over one stream: each a conjunction of ranges over some of six attributes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Array = NDArray[Any]

ATTRIBUTES = ("a", "b", "c", "d", "e", "f")
DOMAIN = 100_000
"""Values of an attribute are uniform in 0 … DOMAIN - 1."""
PASSES = (0.1, 0.3)
"""The least and the greatest share of rows that one range lets through."""
MOST = 3
"""Ranges in a query: 1 … MOST, each over an attribute of its own."""
BATCH = 1 << 16

STREAM = "s"
DECLARATION = (
    f"CREATE STREAM {STREAM} (ts BIGINT, " + ", ".join(f"{a} INT" for a in ATTRIBUTES) + ")"
    " WATERMARK ts DELAY OF INTERVAL 0;"
)
_SCHEMA = pa.schema([("ts", pa.int64()), *((a, pa.int32()) for a in ATTRIBUTES)])


@dataclass(frozen=True, slots=True)
class Range:
    """`lo <= attribute < hi`; the attribute by its place among `ATTRIBUTES`."""

    attribute: int
    lo: int
    hi: int

    def sql(self) -> str:
        name = ATTRIBUTES[self.attribute]
        return f"{name} >= {self.lo} AND {name} < {self.hi}"


@dataclass(frozen=True, slots=True)
class Ranges:
    """A query: all of these hold."""

    ranges: tuple[Range, ...]

    @property
    def attributes(self) -> tuple[int, ...]:
        return tuple(sorted(r.attribute for r in self.ranges))

    def sql(self) -> str:
        return f"SELECT ts, a FROM {STREAM} WHERE " + " AND ".join(r.sql() for r in self.ranges)


def queries(count: int, seed: int = 7) -> list[Ranges]:
    """So many queries, the same for the same seed."""
    random = np.random.default_rng([seed, count])
    return [_query(random) for _ in range(count)]


def _query(random: np.random.Generator) -> Ranges:
    chosen = random.permutation(len(ATTRIBUTES))[: random.integers(1, MOST + 1)]
    return Ranges(tuple(a_range(int(a), random) for a in chosen))


def a_range(attribute: int, random: np.random.Generator) -> Range:
    length = int(random.uniform(*PASSES) * DOMAIN)
    lo = int(random.integers(0, DOMAIN - length + 1))
    return Range(attribute, lo, lo + length)


def batches(count: int, rows: int = BATCH, *, start: int = 0, seed: int = 7) -> Iterator[pa.RecordBatch]:
    """So many pushes of so many rows, one an instant from `start` on; a later start goes on with other rows."""
    random = np.random.default_rng([seed, start])
    for first in range(start, start + count * rows, rows):
        ts = np.arange(first, first + rows, dtype=np.int64)
        values = [random.integers(0, DOMAIN, rows, dtype=np.int32) for _ in ATTRIBUTES]
        yield received(pa.RecordBatch.from_arrays([pa.array(c) for c in (ts, *values)], schema=_SCHEMA))


def received(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows as they come from a socket, a file or another process: in memory that nobody can write to."""
    message = rows.serialize()
    return pa.ipc.read_record_batch(message, rows.schema)


def attributes(batch: pa.RecordBatch) -> tuple[Array, ...]:
    """The six columns as they lie in Arrow, none copied."""
    return tuple(batch.column(a).to_numpy() for a in ATTRIBUTES)


def matches(query: Ranges, columns: Sequence[Array]) -> Array:
    """The rows that a query wants, the plain way."""
    passed = np.ones(len(columns[0]), bool)
    for r in query.ranges:
        passed &= (columns[r.attribute] >= r.lo) & (columns[r.attribute] < r.hi)
    return np.flatnonzero(passed)
