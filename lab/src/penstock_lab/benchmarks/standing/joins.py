"""Many joins over five streams against the largest of them alone: what their SteMs take.

Rows of a stream lie once in its SteM, for the longest window of any query, with all columns that some query reads. So the one
query to compare with has the longest window over all streams and reads the same columns: alone in a session that shares, and
by itself in one that does not. Bytes are what the sessions say of themselves: SteMs, lineages and grouped filters.

How many lineages there are hangs on the predicates: over one attribute of a stream they cut its rows into as many parts as there are
constants, over two into the product of both, so that hardly two rows are wanted by the same queries: both are measured.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import penstock

STREAMS = tuple(f"s{i}" for i in range(5))
KEYS = 5
"""For every row of a window: a row has a partner in a fifth of the other streams."""
ATTRIBUTES, VALUES = ("v", "w"), 1000
"""What predicates compare, and how many values it has."""
AHEAD = 3
"""Windows of rows that are pushed."""
_SCHEMA = pa.schema([("ts", pa.int64()), *((name, pa.int32()) for name in ("k", *ATTRIBUTES))])


@dataclass(frozen=True, slots=True)
class Join:
    """Streams joined on k, each with its window and maybe predicates."""

    inputs: tuple[tuple[str, int, tuple[str, ...]], ...]

    def sql(self) -> str:
        names = [stream for stream, _, _ in self.inputs]
        read = ", ".join(f"{n}.k AS {n}k, {n}.v AS {n}v" for n in names)
        windows = ", ".join(f"{stream} [RANGE {window}]" for stream, window, _ in self.inputs)
        met = [f"{names[0]}.k = {n}.k" for n in names[1:]]
        asked = [f"{stream}.{predicate}" for stream, _, some in self.inputs for predicate in some]
        return f"SELECT {read} FROM {windows} WHERE {' AND '.join(met + asked)}"


def largest(window: int) -> Join:
    return Join(tuple((stream, window, ()) for stream in STREAMS))


def queries(count: int, window: int, attributes: int = 1, seed: int = 7) -> list[Join]:
    """The largest, and others of two to five streams with predicates over so many attributes of each."""
    coin = random.Random(f"joins {seed} {count}")
    others = (_join(coin, window, ATTRIBUTES[:attributes]) for _ in range(count - 1))
    return [largest(window), *others]


def _join(coin: random.Random, window: int, attributes: Sequence[str]) -> Join:
    chosen = coin.sample(STREAMS, coin.randint(2, len(STREAMS)))
    return Join(tuple((s, coin.randint(1, window), _predicates(coin, attributes)) for s in chosen))


def _predicates(coin: random.Random, attributes: Sequence[str]) -> tuple[str, ...]:
    asked = [a for a in attributes if coin.random() < 0.6]
    return tuple(f"{a} {coin.choice('<>')} {coin.randrange(VALUES)}" for a in asked)


@dataclass(frozen=True, slots=True)
class Held:
    """What a session takes once its windows are full."""

    bytes: int
    stems: int
    """Of these in SteMs, where queries share them."""
    rows: int
    """Live in shared SteMs."""
    found: int
    """Results of the largest query."""
    every: int
    """Results of all queries."""


def held(asked: list[Join], window: int, **options: Any) -> Held:
    """Push rows, one an instant to every stream, until all windows have been full for a while."""
    session = penstock.connect(**options)
    for stream in STREAMS:
        session.execute(f"CREATE STREAM {stream} (ts BIGINT, k INT, v INT, w INT) WATERMARK ts DELAY OF 0")
    standing = [session.query(q.sql(), name=f"q{i}") for i, q in enumerate(asked)]
    coin = np.random.default_rng([7, window])
    step = window // 8
    for start in range(0, AHEAD * window, step):
        ts = np.arange(start, min(start + step, AHEAD * window), dtype=np.int64)
        for stream in STREAMS:
            k = coin.integers(0, KEYS * window, len(ts), dtype=np.int32)
            values = [coin.integers(0, VALUES, len(ts), dtype=np.int32) for _ in ATTRIBUTES]
            session.push(stream, pa.record_batch([pa.array(c) for c in (ts, k, *values)], schema=_SCHEMA))
    session.advance(AHEAD * window - 1)
    matched = [q.matched for q in standing]
    told = json.loads(session.explain("json"))
    return Held(
        int(session.engine.size_bytes),
        sum(stem["bytes"] for stem in told["stems"]),
        sum(stem["rows"] for stem in told["stems"]),
        matched[0],
        sum(matched),
    )
