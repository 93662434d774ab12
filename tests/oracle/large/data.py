"""Streams and tables as NumPy expressions: short to print, quick to make, and cut to any slice of their rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

PRELUDE = '''\
def draw(seed):
    return np.random.default_rng(seed)


def zipf(seed, n, values, top):
    """Values below `values`; the one of rank r comes some `top` / r times, and what is left over is spread evenly."""
    rng = draw(seed)
    ranks = np.arange(1, min(values, 5000) + 1)
    weights = np.minimum(top / ranks / max(n, 1), 0.5 / ranks / np.log(len(ranks) + 2))
    edges = np.cumsum(weights)
    drawn = rng.random(n)
    return np.where(drawn < edges[-1], np.searchsorted(edges, drawn), rng.integers(0, values, n))


def column(values, kind, mask=None):
    """An Arrow array of a SQL type from integers; strings are made of their digits."""
    values = np.asarray(values)
    if kind == "STRING":
        made = pc.binary_join_element_wise("é", pa.array(values).cast(pa.string()), "")
    elif kind == "BOOLEAN":
        made = pa.array(values % 2 == 1)
    elif kind in ("TIMESTAMP", "DATE"):
        whole = pa.int64() if kind == "TIMESTAMP" else pa.int32()
        made = pa.array(values).cast(whole).cast(ARROW[kind])
    else:
        made = pa.array(values / 4 if kind in ("DOUBLE", "FLOAT") else values).cast(ARROW[kind])
    return made if mask is None else pc.if_else(pa.array(~mask), made, None)
'''
ARROW = {
    "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(), "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(), "STRING": pa.string(), "BOOLEAN": pa.bool_(), "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"), "TIME": pa.int64(),
}  # fmt: skip
_NAMES: dict[str, Any] = {"np": np, "pa": pa, "pc": pc, "ARROW": ARROW}
exec(PRELUDE, _NAMES)


@dataclass(frozen=True, slots=True)
class Series:
    """A column: `text` is a NumPy expression of integers over n (rows) and i (0 … n-1)."""

    name: str
    kind: str
    text: str
    nulls: str = ""
    """An expression of the mask of NULLs."""

    def array_text(self) -> str:
        return f"column({self.text}, {self.kind!r}{', ' + self.nulls if self.nulls else ''})"


@dataclass(frozen=True, slots=True)
class Rows:
    """`n` rows in order, of which `rows` are there."""

    name: str
    n: int
    series: tuple[Series, ...]
    rows: tuple[int, int, int] = (0, 2**40, 1)
    """start, stop, step"""

    @property
    def positions(self) -> range:
        start, stop, step = self.rows
        return range(start, min(stop, self.n), step)

    @property
    def table(self) -> pa.Table:
        return _table(self.name, self.n, self.series, self.rows)

    def place(self, position: int) -> int:
        """How many of the rows that are there stand before this position of all."""
        start, _, step = self.rows
        return min(max(-(-(position - start) // step), 0), len(self.positions))

    def cut(self, start: int, stop: int, step: int = 1) -> Self:
        """Some of the rows that are there, counted among these."""
        left = self.positions[start:stop:step]
        return replace(self, rows=(left.start, left.stop, left.step))


@dataclass(frozen=True, slots=True)
class Stream(Rows):
    """Rows in order of arrival."""

    delay: int = 0

    @property
    def ts(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.asarray(self.table.column("ts"), np.int64)

    def ddl(self, timestamps: bool) -> str:
        time = "TIMESTAMP" if timestamps else "BIGINT"
        columns = ", ".join(f"{s.name} {time if s.kind == 'TIME' else s.kind}" for s in self.series)
        unit = " MICROSECONDS" if timestamps and self.delay else ""
        return f"CREATE STREAM {self.name} ({columns}) WATERMARK ts DELAY OF INTERVAL {self.delay}{unit}"


@dataclass(frozen=True, slots=True)
class Table(Rows):
    """Rows that a table holds at some time; it begins with the first ones, and updates bring the others."""

    retroactive: bool = False
    first: int = 0
    """Where the rows end that it begins with."""


@lru_cache(maxsize=12)
def _whole(name: str, n: int, series: tuple[Series, ...]) -> pa.Table:
    names = {**_NAMES, "n": n, "i": np.arange(n)}
    arrays = [eval(s.array_text(), names) for s in series]
    return pa.table(dict(zip((s.name for s in series), arrays, strict=True)))


@lru_cache(maxsize=12)
def _table(name: str, n: int, series: tuple[Series, ...], rows: tuple[int, int, int]) -> pa.Table:
    whole = _whole(name, n, series)
    start, stop, step = rows
    there = range(start, min(stop, n), step)
    return whole.slice(start, len(there)) if step == 1 else whole.take(pa.array(np.asarray(there)))
