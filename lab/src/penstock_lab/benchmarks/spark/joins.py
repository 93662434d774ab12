"""The joins, as Penstock and as Spark say them: rows of all streams less than a window apart."""

from __future__ import annotations

from dataclasses import dataclass

WINDOW = 10_000
"""Instants, of which every stream has one row each."""


@dataclass(frozen=True, slots=True)
class Join:
    """One query in two languages, and how many times Spark's best pace is wanted. `{w}` stands for the window."""

    name: str
    streams: str
    own: str
    native: str
    wanted: float

    def own_text(self) -> str:
        return self.own.format(w=f"{WINDOW} SECONDS")

    def native_text(self) -> str:
        return self.native.format(w=f"INTERVAL {WINDOW} SECONDS", seconds=WINDOW)


TWO_WAY = Join(
    "two-way",
    "ab",
    "SELECT a.x, a.y AS p, b.y AS q FROM a [RANGE {w}], b [RANGE {w}] WHERE a.x = b.x",
    "SELECT a.x, a.y AS p, b.y AS q FROM a JOIN b ON a.x = b.x AND a.ts > b.ts - {w} AND a.ts < b.ts + {w}",
    wanted=10.0,
)

THREE_WAY = Join(
    "three-way",
    "abc",
    "SELECT a.x, a.y, b.y AS p, c.x AS q FROM a [RANGE {w}], b [RANGE {w}], c [RANGE {w}]"
    " WHERE a.x = b.x AND a.y = c.y",
    # The selective join first: the better of the two orders. Spark lets one event-time column into the second join, so
    # c's time travels as a number.
    "SELECT ac.x, ac.y, b.y AS p, ac.q"
    " FROM (SELECT a.ts, a.x, a.y, c.x AS q, unix_seconds(c.ts) AS c_ts"
    " FROM a JOIN c ON a.y = c.y AND a.ts > c.ts - {w} AND a.ts < c.ts + {w}) ac"
    " JOIN b ON ac.x = b.x AND ac.ts > b.ts - {w} AND ac.ts < b.ts + {w}"
    " AND abs(ac.c_ts - unix_seconds(b.ts)) < {seconds}",
    wanted=20.0,
)
