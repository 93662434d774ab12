"""Queries come and go by the thousand while rows flow, and nothing of them stays.

`PENSTOCK_CHURN` sets how many are registered and dropped (default 1500; a campaign takes 100000). Ten times the session is emptied down to the
one query that stays, and measured: state, strings, Python objects and resident memory must be what they were.
"""

from __future__ import annotations

import gc
import os
import random
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.equivalence import crowd_rows
from tests.equivalence.crowd_queries import Writer
from tests.oracle import schema as schemas
from tests.oracle.schema import Schema, Stream, Table

import penstock

CYCLES = int(os.environ.get("PENSTOCK_CHURN", "1500"))
STANDING = 25
"""Queries at a time."""
ROWS = 6
"""In a push; there is one for every fourth query that comes."""
OURS = tuple(f"<class '{name}" for name in ("penstock", "sqlglot", "pyarrow", "function", "cell"))
"""Objects that may pile up; a kernel's first use makes thousands of Numba's own."""


def wide() -> Schema:
    columns = (("ts", "TIME"), *crowd_rows.KINDS.items())
    table = Table("n", (("k", "INT"), ("s", "STRING")), False, ((1, "one"), (2, "two")))
    return Schema(tuple(Stream(name, columns) for name in "abc"), (table,))


@dataclass(frozen=True, slots=True)
class Held:
    state: int
    strings: int
    objects: int
    resident: int

    @classmethod
    def by(cls, session: Any) -> Held:
        gc.collect()
        ours = sum(str(type(one)).startswith(OURS) for one in gc.get_objects())
        return cls(session.size_bytes, len(session.engine.strings), ours, resident())


def resident() -> int:
    """Bytes of this process in memory; 0 where the system does not say."""
    told = Path("/proc/self/statm")
    return int(told.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if told.exists() else 0


def load_kernels() -> None:
    """Those that look for strings nobody holds: otherwise they are loaded when the strings have become many."""
    s = penstock.connect()
    s.execute("CREATE STREAM a (ts BIGINT, s STRING) WATERMARK ts DELAY OF INTERVAL 0")
    s.query("SELECT DISTINCT s FROM a [NOW]")
    for first in range(0, 30_000, 5000):
        numbers = range(first, first + 5000)
        s.push("a", {"ts": numbers, "s": [f"string {i}" for i in numbers]})
        s.advance(first + 5000)
    assert len(s.engine.strings) < 30_000


class Churn:
    def __init__(self, rng: random.Random) -> None:
        self.rng, self.schema = rng, wide()
        self.session = penstock.connect()
        self.session.execute(self.schema.ddl())
        for table in self.schema.tables:
            self.session.create_table(table.name, self.schema.arrow(table.columns, list(table.rows)))
        self.kept = self.session.query("SELECT s, COUNT(*) AS n FROM a [RANGE 20] GROUP BY s", name="kept")
        self.standing: list[Any] = []
        self.prepared = {
            stream.name: [self.rows(stream) for _ in range(20)] for stream in self.schema.streams
        }
        self.now = self.said = 0

    def rows(self, stream: Stream) -> pa.Table:
        plain = [schemas.row(self.rng, stream.columns, 3) for _ in range(ROWS)]
        rows = [crowd_rows.other(self.rng, stream.columns, row, 0.1, 0.1) for row in plain]
        return self.schema.arrow(stream.columns, rows)

    def texts(self, count: int) -> list[str]:
        """Each crowd has cores and constants of its own; half of the queries have a string that none had before."""
        asked = Writer(self.rng, self.schema, functions=False).crowd(count)
        return [
            f"{a.text} AND s <> 'never {self.now} {i}'" if simple(a.text) and i % 2 else a.text
            for i, a in enumerate(asked)
        ]

    def cycle(self, text: str) -> None:
        if len(self.standing) >= STANDING:
            self.drop(self.rng.randrange(len(self.standing)))
        self.standing.append(self.session.query(text))
        if self.rng.random() < 0.25:
            self.push(self.rng.choice("abc"))
        if self.rng.random() < 0.1:
            self.session.advance(self.now)
            self.now += 1
            self.kept.changes()

    def push(self, stream: str) -> None:
        table = self.rng.choice(self.prepared[stream])
        places = {name: i for i, name in enumerate(table.column_names)}
        ts = pa.array([self.now] * ROWS, pa.int64())
        fresh = pa.array([f"{stream} {self.now} {i}" if i % 2 else "a" for i in range(ROWS)])
        self.session.push(
            stream, table.set_column(places["ts"], "ts", ts).set_column(places["s"], "s", fresh)
        )

    def drop(self, index: int) -> None:
        query = self.standing.pop(index)
        self.said += query.matched
        query.drop()

    def emptied(self) -> Held:
        """What the session holds with the one query that stays, and its window run empty."""
        while self.standing:
            self.drop(-1)
        self.now += 50
        # So many that somebody looks which strings are in use: none of these, once their instant is over.
        rows = {"ts": [self.now] * 5000, "s": [f"{self.now} {i}" for i in range(5000)]}
        self.session.push("b", rows | {name: [None] * 5000 for name in crowd_rows.KINDS if name != "s"})
        self.session.advance(self.now)
        self.session.advance(self.now + 1)
        self.kept.changes()
        self.now += 2
        return Held.by(self.session)


def simple(text: str) -> bool:
    """A selection with a predicate: one more can be written behind it."""
    more = any(word in text for word in ("GROUP", "DISTINCT", "EXISTS", "UNION", "EXCEPT", "INTERSECT"))
    return re.search(r" AS [abc] WHERE ", text) is not None and not more


@pytest.mark.slow
def test_thousands_of_queries_come_and_go_and_leave_nothing() -> None:
    load_kernels()
    churn = Churn(random.Random("churn"))
    held: list[Held] = []
    for _ in range(10):
        left = CYCLES // 10
        while left > 0:
            texts = churn.texts(min(left, 100))
            left -= len(texts)
            for text in texts:
                churn.cycle(text)
        held.append(churn.emptied())
    assert list(churn.session.queries) == ["kept"]
    told = "\n".join(map(str, held))
    print(told)
    assert churn.said > CYCLES / 2, "they had something to say"
    assert max(h.state for h in held[5:]) <= 1.1 * max(h.state for h in held[:5]), told
    assert max(h.strings for h in held) < 100, told
    assert held[-1].objects <= held[1].objects + 200, told
    assert held[-1].resident <= held[1].resident + 64 * 2**20, (
        told
    )  # kernels used for the first time among it
