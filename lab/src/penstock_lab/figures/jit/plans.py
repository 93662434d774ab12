"""The paper's plans and data (Tables II and III): clique joins over synthetic streams, bushy or left-deep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pyarrow as pa

NAMES = "abcdefgh"
PUSH = 300
"""Seconds of application time in a push."""
WIDER = 100
"""Left-deep plans feed one stream with so many times as many values."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A point of the parameters; `window` in seconds, `rate` in tuples a second."""

    shape: str
    sources: int
    window: int
    rate: float
    values: int

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Every pair of sources is compared by a column of its own."""
        return list(combinations(range(self.sources), 2))

    @property
    def wide(self) -> int:
        """The source of a left-deep plan whose values are many: D, of three sources C."""
        return -1 if self.shape == "bushy" else min(3, self.sources - 1)

    def columns(self, source: int) -> list[str]:
        return [f"x{q}" for q, pair in enumerate(self.pairs) if source in pair]

    def declaration(self) -> str:
        return ";".join(
            f"CREATE STREAM {NAMES[i]} (ts BIGINT, {', '.join(f'{c} INT' for c in self.columns(i))})"
            " WATERMARK ts DELAY OF INTERVAL 0"
            for i in range(self.sources)
        )

    def query(self) -> str:
        names = NAMES[: self.sources]
        columns = ", ".join(f"{name}.ts AS t{name}" for name in names)
        streams = ", ".join(f"{name} [RANGE {self.window}]" for name in names)
        equal = [f"{NAMES[i]}.x{q} = {NAMES[j]}.x{q}" for q, (i, j) in enumerate(self.pairs)]
        return f"SELECT {columns} FROM {streams} WHERE {' AND '.join(equal)}"

    def pushes(self, seconds: int, seed: int = 7) -> Iterator[tuple[int, dict[str, pa.Table]]]:
        """What comes until an instant, by stream."""
        random = np.random.default_rng([seed, self.sources])
        for begin in range(0, seconds, PUSH):
            end = min(begin + PUSH, seconds)
            tables = {}
            for i in range(self.sources):
                rows = round((end - begin) * self.rate)
                most = self.values * (WIDER if i == self.wide else 1)
                tables[NAMES[i]] = pa.table(
                    {
                        "ts": np.sort(random.integers(begin, end, rows)),
                        **{c: random.integers(1, most + 1, rows, dtype=np.int32) for c in self.columns(i)},
                    }
                )
            yield end - 1, tables


@dataclass(frozen=True, slots=True)
class Fruitful(Setting):
    """Every row finds partners in all sources, and every partial result becomes part of an answer: all that could be asked is in vain.

    All sources go through the values again and again; at any time each holds a value once or twice.
    """

    def pushes(self, seconds: int, seed: int = 7) -> Iterator[tuple[int, dict[str, pa.Table]]]:
        for begin in range(0, seconds, PUSH):
            ts = np.arange(begin, min(begin + PUSH, seconds))
            own = (ts % self.values).astype(np.int32)
            yield (
                int(ts[-1]),
                {
                    NAMES[i]: pa.table({"ts": ts, **dict.fromkeys(self.columns(i), own)})
                    for i in range(self.sources)
                },
            )


def fruitful(sources: int) -> Fruitful:
    """A window is a second less than twice the values."""
    return Fruitful("bushy", sources, 599, 1.0, 300)


BUSHY = Setting("bushy", 6, 20 * 60, 1.0, 200)
LEFT_DEEP = Setting("left-deep", 4, 10 * 60, 1.0, 50)
"""The defaults of Table III."""
