"""What a crowd of queries reads: wide streams of every type, with the values that comparisons get wrong.

Arrivals, their order, gaps and lateness are the oracle's (`tests.oracle.streams`); here its streams get more columns, and
some of its values give way to NULL, NaN, -0.0, infinities, the least and the greatest integers and dates.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from dataclasses import replace

from tests.oracle import features, streams
from tests.oracle import schema as schemas
from tests.oracle.scalar import Value
from tests.oracle.schema import Columns, Row, Schema, Stream
from tests.oracle.streams import Advance, Arrival, Event

KINDS = {
    "k": "INT", "x": "INT", "y": "BIGINT", "h": "SMALLINT", "d": "DOUBLE", "e": "DOUBLE", "f": "FLOAT",
    "s": "STRING", "b": "BOOLEAN", "m": "TIMESTAMP", "g": "DATE",
}  # fmt: skip
TAME = ("k", "x", "d", "s", "b")
"""Columns that the oracle's generator knows, and whose sums are exact in any order."""
DAYS = tuple(dt.date(2024, 1, 1) + dt.timedelta(days=n) for n in range(4))
MOMENTS = tuple(dt.datetime(2024, 1, 1) + dt.timedelta(hours=8 * n) for n in range(6))
USUAL: dict[str, tuple[Value, ...]] = {
    "y": tuple(range(-2, 7)), "h": tuple(range(-2, 7)), "f": (-0.5, 0.0, 0.1, 0.25, 1.5, 2.0),
    "e": (-0.5, 0.0, 0.1, 0.25, 1.5, 2.0), "m": MOMENTS, "g": DAYS,
}  # fmt: skip
WILD: dict[str, tuple[Value, ...]] = {
    "x": (2**31 - 1, -(2**31)),
    "y": (2**63 - 1, -(2**63), 2**53 + 1),
    "h": (2**15 - 1, -(2**15)),
    "d": (-0.0,),
    "e": (math.nan, -math.nan, -0.0, math.inf, -math.inf, 1e308, 5e-324, 2.0**53),
    "f": (math.nan, -0.0, math.inf, -math.inf),
    "m": (dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), MOMENTS[1] + dt.timedelta.resolution),
    "g": (dt.date(1, 1, 1), dt.date(9999, 12, 31)),
}  # fmt: skip


def schema(rng: random.Random) -> Schema:
    """Three to five streams with a key and some of the other columns, and the oracle's tables."""
    drawn = schemas.make(rng, features.ALL - features.RECENT)
    made = []
    for name in "abcde"[: rng.randint(3, 5)]:
        others = [n for n in KINDS if n != "k"]
        chosen = sorted(rng.sample(others, rng.randint(4, len(others))), key=list(KINDS).index)
        delay = drawn.units(rng.choice((0, 0, 0, 1, 3, 10)))
        made.append(Stream(name, (("ts", "TIME"), ("k", "INT"), *((n, KINDS[n]) for n in chosen)), delay))
    return replace(drawn, streams=tuple(made))


def tame(wide: Schema) -> Schema:
    """The same with the columns that the oracle's generator knows."""
    kept = [replace(s, columns=tuple(c for c in s.columns if c[0] in ("ts", *TAME))) for s in wide.streams]
    return replace(wide, streams=tuple(kept))


def events(rng: random.Random, wide: Schema, size: int) -> list[Event]:
    """The oracle's, with other values; streams take longer turns, and are less often interrupted."""
    nulls, wild = rng.choice((0.0, 0.05, 0.25)), rng.choice((0.02, 0.1, 0.3))
    drawn = streams.make(rng, wide, (), size, features.ALL - features.RECENT - {"register_late"})
    found: list[Event] = []
    turn: list[Arrival] = []
    for event in drawn[1:]:  # the first registers a query
        if isinstance(event, Advance) and rng.random() < 0.7 and event not in drawn[-5:]:
            continue
        if isinstance(event, Arrival):
            columns = wide.stream(event.stream).columns
            turn.append(replace(event, row=other(rng, columns, event.row, nulls, wild)))
        if not isinstance(event, Arrival) or rng.random() < 0.03:
            found += sorted(turn, key=lambda a: a.stream)
            turn = []
        if not isinstance(event, Arrival):
            found.append(event)
    return found + turn


def other(rng: random.Random, columns: Columns, row: Row, nulls: float, wild: float) -> Row:
    def value(name: str, given: Value) -> Value:
        if name in WILD and rng.random() < wild:
            return rng.choice(WILD[name])
        if name in USUAL:
            return None if rng.random() < nulls else rng.choice(USUAL[name])
        return given

    return tuple(value(name, given) for (name, _), given in zip(columns, row, strict=True))
