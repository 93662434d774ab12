"""Streams as NumPy expressions: short to print, quick to make, and cut to any slice of their rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

PRELUDE = '''\
def draw(seed):
    return np.random.default_rng(seed)


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
class Stream:
    """`n` rows in arrival order, of which `rows` are there."""

    name: str
    n: int
    series: tuple[Series, ...]
    delay: int = 0
    rows: tuple[int, int, int] = (0, 2**40, 1)
    """start, stop, step"""

    @property
    def positions(self) -> range:
        start, stop, step = self.rows
        return range(start, min(stop, self.n), step)

    @property
    def table(self) -> pa.Table:
        return _table(self)

    @property
    def ts(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        return _times(self)

    def place(self, position: int) -> int:
        """How many of the rows that are there stand before this position of all."""
        start, _, step = self.rows
        return min(max(-(-(position - start) // step), 0), len(self.positions))

    def cut(self, start: int, stop: int, step: int = 1) -> Stream:
        """Some of the rows that are there, counted among these."""
        left = self.positions[start:stop:step]
        return replace(self, rows=(left.start, left.stop, left.step))

    def ddl(self, timestamps: bool) -> str:
        time = "TIMESTAMP" if timestamps else "BIGINT"
        columns = ", ".join(f"{s.name} {time if s.kind == 'TIME' else s.kind}" for s in self.series)
        unit = " MICROSECONDS" if timestamps and self.delay else ""
        return f"CREATE STREAM {self.name} ({columns}) WATERMARK ts DELAY OF INTERVAL {self.delay}{unit}"


@lru_cache(maxsize=8)
def _whole(name: str, n: int, series: tuple[Series, ...]) -> pa.Table:
    names = {**_NAMES, "n": n, "i": np.arange(n)}
    arrays = [eval(s.array_text(), names) for s in series]
    return pa.table(dict(zip((s.name for s in series), arrays, strict=True)))


@lru_cache(maxsize=8)
def _table(stream: Stream) -> pa.Table:
    whole = _whole(stream.name, stream.n, stream.series)
    start, _, step = stream.rows
    if step == 1:
        return whole.slice(start, len(stream.positions))
    return whole.take(pa.array(np.asarray(stream.positions)))


@lru_cache(maxsize=8)
def _times(stream: Stream) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.asarray(stream.table.column("ts"), np.int64)
