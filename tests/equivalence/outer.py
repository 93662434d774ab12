"""Queries with outer joins, drawn, and what DuckDB answers to them at any instant."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import duckdb
import pyarrow as pa

import penstock
from penstock.testing.local_cells import Cells

STREAMS = ("a", "b", "c")
KINDS = ("LEFT", "RIGHT", "FULL")
FOREVER = 2**62
CREATE = ";".join(
    f"CREATE STREAM {name} (ts BIGINT, k INT, v INT) WATERMARK ts DELAY OF INTERVAL 0" for name in STREAMS
)
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int32()), ("v", pa.int32())])
Rows = list[dict[str, Any]]
Windows = Callable[[str, int], str]
"""Renders a stream with a RANGE window, for Penstock or for DuckDB."""


def window(stream: str, length: int) -> str:
    return f"{stream} [RANGE {length}]"


def alive(tau: int) -> Windows:
    """The rows of a stream that are alive at `tau`, as DuckDB reads them."""
    return lambda stream, length: f"(SELECT * FROM {stream} WHERE ts <= {tau} AND {tau} < ts + {length})"


def bag(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def rows(random_: random.Random, count: int, keys: int, *, until: int = 40, nulls: float = 0.15) -> Rows:
    """Rows in event-time order; a key may be NULL."""
    made = []
    for ts in sorted(random_.randrange(1, until) for _ in range(count)):
        key = None if random_.random() < nulls else random_.randrange(keys)
        made.append({"ts": ts, "k": key, "v": random_.randrange(4)})
    return made


class Answers:
    """DuckDB over the same rows."""

    def __init__(self, feed: dict[str, Rows]) -> None:
        self.connection = duckdb.connect(config={"threads": 1})
        for stream, its in feed.items():
            self.connection.register(stream, pa.Table.from_pylist(its, SCHEMA))

    def at(self, tau: int, query: Callable[[Windows], str]) -> Counter[tuple[Any, ...]]:
        return Counter(self.connection.execute(query(alive(tau))).fetchall())


def check(
    query: Callable[[Windows], str],
    feed: dict[str, Rows],
    taus: Iterable[int],
    *,
    cells: int = 1,
    restart: Callable[[penstock.Session], penstock.Session] | None = None,
    **options: Any,
) -> penstock.Query:
    """Snapshots at some instants, and the changes that lead there, are DuckDB's answers.

    `restart`: what gives the session that goes on after each of them.
    """
    session = penstock.connect(**options)
    if cells > 1:
        session.engine = Cells(session.catalog, cells)
    session.execute(CREATE)
    standing = session.query(query(window), name="q")
    answers = Answers(feed)
    last, live = -1, Counter[tuple[Any, ...]]()
    ends: Counter[tuple[tuple[Any, ...], int]] = Counter()
    for tau in taus:
        for stream, its in feed.items():
            part = [row for row in its if last < row["ts"] <= tau]
            if part:
                session.push(stream, pa.Table.from_pylist(part, SCHEMA))
        session.advance(tau)
        expected = answers.at(tau, query)
        assert bag(standing.snapshot()) == expected, (query(window), tau, options)
        for change in standing.changes().to_pylist():
            op, _, exp = (change.pop(name) for name in ("__op", "__ts", "__exp"))
            change.pop("__key", None)
            ends[tuple(change.values()), FOREVER if exp is None else exp] += 1 if op == "+" else -1
        assert min(ends.values(), default=0) >= 0, "a row was taken back that was not there"
        ends = Counter({one: n for one, n in ends.items() if one[1] > tau and n})
        live = Counter()
        for (row, _), n in ends.items():
            live[row] += n
        if "GROUP BY" not in query(window):  # groups replace their rows by key
            assert live == expected, (query(window), tau, options)
        last = tau
        if restart is not None:
            session = restart(session)
            standing = session.queries["q"]
    return standing


def chain(random_: random.Random, joins: int, kinds: Sequence[str] = KINDS) -> Callable[[Windows], str]:
    """A FROM of so many joins, each compared with any input before it."""
    inputs = [(random_.choice(STREAMS), random_.randrange(3, 12)) for _ in range(joins + 1)]
    steps = []
    for i in range(1, joins + 1):
        other = random_.randrange(i)
        on = f"t{other}.k = t{i}.k"
        if random_.random() < 0.3:
            on += random_.choice([f" AND t{i}.v > 0", f" AND t{other}.v <> t{i}.v", f" AND t{other}.v < 3"])
        steps.append((random_.choice(kinds), on))

    def text(windows: Windows) -> str:
        made = f"{windows(*inputs[0])} AS t0"
        for i, (kind, on) in enumerate(steps, 1):
            made += f" {kind} JOIN {windows(*inputs[i])} AS t{i} ON {on}"
        return made

    return text


def drawn(random_: random.Random, joins: int, kinds: Sequence[str] = KINDS) -> Callable[[Windows], str]:
    """A query over such a FROM: selected, grouped, without duplicates, or beside a set operation."""
    source = chain(random_, joins, kinds)
    picked = ", ".join(f"t{i}.k AS k{i}, t{i}.v AS v{i}" for i in range(joins + 1))
    where = random_.choice(
        ["", "", f" WHERE t{joins}.v > 0", f" WHERE t0.k IS NULL OR t{joins}.k < 3", " WHERE t0.v < 3"]
    )
    shape = random_.randrange(6)
    if shape == 0:
        return lambda w: f"SELECT DISTINCT t0.k AS k, t{joins}.v AS v FROM {source(w)}{where}"
    if shape == 1:
        return lambda w: (
            f"SELECT t{joins}.k AS k, COUNT(*) AS n, SUM(t0.v) AS s FROM {source(w)}{where} GROUP BY t{joins}.k"
        )
    if shape == 2:
        other = random_.choice(["EXCEPT", "EXCEPT ALL", "UNION ALL", "INTERSECT"])
        return lambda w: f"SELECT t0.k AS k FROM {source(w)}{where} {other} SELECT v FROM {w('c', 6)}"
    if shape == 3:
        inner = lambda w: f"(SELECT DISTINCT k, v FROM {w('b', 9)} WHERE v > 0) AS d"  # noqa: E731
        kind = random_.choice(kinds)
        return lambda w: f"SELECT {picked}, d.v AS dv FROM {source(w)} {kind} JOIN {inner(w)} ON t0.k = d.k"
    return lambda w: f"SELECT {picked} FROM {source(w)}{where}"
