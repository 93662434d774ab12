"""Queries by equality: `symbol = 'S123' AND price > c`, far more than have anything to say about one row.

The hand-written program knows that its constants have eight bytes at most: a symbol is one word, any longer one is nobody's. A
table gives the queries of a symbol, by ascending c, one after the other (CSR); a row walks those below its price.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock_lab.benchmarks.standing.workload import BATCH, DOMAIN, PASSES
from penstock_lab.reference import MIX, njit

Array = NDArray[Any]

SYMBOLS = 4096
BYTES = 8
STREAM = "quotes"
DECLARATION = (
    f"CREATE STREAM {STREAM} (ts BIGINT, symbol STRING, price INT) WATERMARK ts DELAY OF INTERVAL 0;"
)
_SCHEMA = pa.schema([("ts", pa.int64()), ("symbol", pa.string()), ("price", pa.int32())])


@dataclass(frozen=True, slots=True)
class Watch:
    """A query for one symbol above a price."""

    symbol: str
    above: int

    def sql(self) -> str:
        return f"SELECT ts, price FROM {STREAM} WHERE symbol = '{self.symbol}' AND price > {self.above}"


def queries(count: int, seed: int = 7) -> list[Watch]:
    random = np.random.default_rng([seed, count])
    symbols = random.integers(0, SYMBOLS, count)
    above = DOMAIN * (1 - random.uniform(*PASSES, count))
    return [Watch(f"S{s}", int(c)) for s, c in zip(symbols, above, strict=True)]


def batches(count: int, rows: int = BATCH, *, start: int = 0, seed: int = 7) -> Iterator[pa.RecordBatch]:
    """As `workload.batches`; symbols are plain Arrow strings."""
    random = np.random.default_rng([seed, start])
    names = pa.array([f"S{i}" for i in range(SYMBOLS)])
    for first in range(start, start + count * rows, rows):
        symbols = names.take(pa.array(random.integers(0, SYMBOLS, rows)))
        price = pa.array(random.integers(0, DOMAIN, rows, dtype=np.int32))
        ts = pa.array(np.arange(first, first + rows, dtype=np.int64))
        yield pa.RecordBatch.from_arrays([ts, symbols, price], schema=_SCHEMA)


def matches(query: Watch, batch: pa.RecordBatch) -> int:
    """How many rows a query wants, the plain way."""
    symbols, prices = batch.column("symbol").to_pylist(), batch.column("price").to_pylist()
    return sum(s == query.symbol and p > query.above for s, p in zip(symbols, prices, strict=True))


def _word(symbol: str) -> np.uint64:
    return np.uint64(int.from_bytes(symbol.encode().ljust(BYTES, b"\0"), "little"))


@njit
def _count(offsets, text, price, shift, words, begins, ends, above, members, counts):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(words) - 1)
    one, eight = np.uint64(1), np.uint64(8)
    for row in range(len(price)):
        start, stop = offsets[row], offsets[row + 1]
        if stop - start > BYTES:
            continue
        word = np.uint64(0)
        for i in range(stop - 1, start - 1, -1):
            word = word << eight | np.uint64(text[i])
        slot = (word * MIX) >> shift
        while begins[slot] < ends[slot] and words[slot] != word:
            slot = (slot + one) & mask
        for i in range(begins[slot], ends[slot]):
            if price[row] <= above[i]:
                break
            counts[members[i]] += 1


class Watching:
    """`counts`: rows of every query so far."""

    def __init__(self, watches: Sequence[Watch]) -> None:
        order = sorted(range(len(watches)), key=lambda q: (watches[q].symbol, watches[q].above))
        self.members = np.array(order, np.int64)
        self.above = np.array([watches[q].above for q in order], np.int32)
        self.counts = np.zeros(len(watches), np.int64)
        symbols = np.array([_word(watches[q].symbol) for q in order], np.uint64)
        first = np.flatnonzero(np.r_[True, symbols[1:] != symbols[:-1]])
        last = np.r_[first[1:], len(order)]
        size = 1 << (4 * len(first)).bit_length()
        self.shift = np.uint64(65 - size.bit_length())
        self.words = np.zeros(size, np.uint64)
        self.begins, self.ends = np.zeros(size, np.int32), np.zeros(size, np.int32)
        for begin, end in zip(first, last, strict=True):
            slot = int((int(symbols[begin]) * int(MIX)) % 2**64 >> int(self.shift))
            while self.ends[slot] > self.begins[slot]:
                slot = (slot + 1) % size
            self.words[slot], self.begins[slot], self.ends[slot] = symbols[begin], begin, end

    def __call__(self, batch: pa.RecordBatch) -> None:
        symbol = batch.column("symbol")
        _, offsets, text = symbol.buffers()
        places = np.frombuffer(offsets, np.int32)[symbol.offset : symbol.offset + len(symbol) + 1]
        _count(
            places,
            np.frombuffer(text, np.uint8),
            batch.column("price").to_numpy(),
            self.shift,
            self.words,
            self.begins,
            self.ends,
            self.above,
            self.members,
            self.counts,
        )
