"""The workload of the comparison: `SELECT * FROM stocks s, articles a WHERE s.price > c AND s.symbol = a.symbol`, another c a query.

A text is a number here and in the engine's rows alike, what a column of codes is; some more numbers make an article as wide as one is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

QUOTES = 2250
"""So many symbols are quoted, in a push all of them as often."""
PRICES = 100_000
STOCK = pa.schema([("ts", pa.int64()), ("symbol", pa.int32()), ("price", pa.int32()), ("volume", pa.int32())])
ARTICLE = pa.schema(
    [("ts", pa.int64()), ("symbol", pa.int32()), ("source", pa.int32())]
    + [(name, pa.int64()) for name in ("story", "headline", "author", "words")]
)
SELECTED = ("symbol", "price", "volume"), ("source", "story", "headline", "author", "words")
"""Of a quote and of an article; the times are in `__ts`."""
DECLARATIONS = (
    "CREATE STREAM stocks (ts BIGINT, symbol INT, price INT, volume INT) WATERMARK ts DELAY OF INTERVAL 0;"
    "CREATE STREAM articles (ts BIGINT, symbol INT, source INT, story BIGINT, headline BIGINT, author BIGINT,"
    " words BIGINT) WATERMARK ts DELAY OF INTERVAL 0;"
)


@dataclass(frozen=True, slots=True)
class Market:
    """All articles come first, at instant 0; then the quotes, push by push."""

    articles: pa.RecordBatch
    quotes: tuple[pa.RecordBatch, ...]

    @property
    def last(self) -> int:
        return int(self.quotes[-1].column("ts")[-1].as_py())


def market(
    pushes: int, *, symbols: int = QUOTES, per_symbol: int = 1, rounds: int = 1, seed: int = 7
) -> Market:
    """So many articles for every symbol, in no order; every symbol is quoted so many times a push."""
    random = np.random.default_rng(seed)
    count = symbols * per_symbol
    named = random.permutation(np.repeat(np.arange(symbols, dtype=np.int32), per_symbol))
    columns = [np.zeros(count, np.int64), named, random.integers(0, 40, count, dtype=np.int32)]
    columns += [np.arange(count, dtype=np.int64)]
    columns += [random.integers(0, 2**40, count) for _ in ARTICLE.names[4:]]
    articles = pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=ARTICLE)
    size = rounds * symbols
    return Market(articles, tuple(_quotes(1 + i * size, symbols, rounds, random) for i in range(pushes)))


def _quotes(first: int, symbols: int, rounds: int, random: np.random.Generator) -> pa.RecordBatch:
    count = rounds * symbols
    columns = (
        np.arange(first, first + count, dtype=np.int64),
        np.concatenate([random.permutation(symbols) for _ in range(rounds)]).astype(np.int32),
        random.integers(1, PRICES + 1, count, dtype=np.int32),
        random.integers(1, 10_000, count, dtype=np.int32),
    )
    return pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=STOCK)


def constants(queries: int, seed: int = 7) -> list[int]:
    """Uniform over the prices, no two alike; the first lets every quote through, so that none is useless."""
    random = np.random.default_rng([seed, queries])
    return [0, *(int(c) for c in 1 + random.permutation(PRICES - 1)[: queries - 1])]


def sql(predicate: str) -> str:
    """The query with this predicate on quotes."""
    ours, theirs = SELECTED
    names = ", ".join([f"s.{n}" for n in ours] + [f"a.{n}" for n in theirs])
    return f"SELECT {names} FROM stocks s, articles a WHERE {predicate} AND s.symbol = a.symbol"


def above(constant: int) -> str:
    return f"s.price > {constant}"


def in_order(tables: Sequence[pa.Table]) -> pa.Table:
    """A query's results as a set: those of one instant come in no order."""
    return pa.concat_tables(tables).sort_by([("__ts", "ascending"), ("story", "ascending")]).combine_chunks()
