"""Compile every kernel before it is needed: `penstock warm`.

Runs small sessions that reach every operator, over every kind of column and in both forms in which rows come
in (Arrow arrays are read-only, Python rows are not, and Numba compiles for each). Kernels land in the cache
on disk, where every later process finds them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.api.options import Options
from penstock.api.session import Session
from penstock.kernels.compile_notice import silenced
from penstock.kernels.warm_mark import set_warm
from penstock.operators.aggregate.sliding_sums import MAX_UNROLLED
from penstock.partitioning.placement import Axis, Routing
from penstock.plan.expressions import Column
from penstock.spark.partition_filter import Share
from penstock.state.frequent_values import Table
from penstock.testing.local_cells import Cells
from penstock.types.data_type import Type

_COLUMNS = """(ts {time}, x INT, y BIGINT, d DOUBLE, f FLOAT, s STRING, b BOOLEAN, i SMALLINT, t TIMESTAMP,
    o TINYINT, e DATE) WATERMARK ts DELAY OF {delay}"""

_WINDOWS = ("RANGE 4", "RANGE 6 SLIDE 3", "ROWS 3", "PARTITION BY x ROWS 2", "NOW", "UNBOUNDED")

_AGGREGATES = ", ".join(
    ["COUNT(*) AS n", "COUNT(d) AS m", "COUNT(DISTINCT y) AS u", "SUM(DISTINCT x) AS w"]
    + [f"{f}({c}) AS {f}_{c}" for f in ("SUM", "AVG", "STDDEV") for c in ("x", "y", "d", "f", "i", "o")]
    + [f"{f}({c}) AS {f}_{c}" for f in ("MIN", "MAX") for c in ("x", "y", "d", "f", "s", "i", "t", "o", "e")]
)

_ALL = "ts, x, y, d, f, s, b, i, t, o, e"
_ORDERS = {
    "FIFO": "a [RANGE 4]",
    "STRICT": "a [ROWS 3]",
    "WEAK": f"(SELECT {_ALL} FROM a [RANGE 4] UNION ALL SELECT {_ALL} FROM c [RANGE 6]) AS u",
    "SLIDING": "a [RANGE 6 SLIDE 3]",
    "ENDLESS": "a [UNBOUNDED]",
}
"""Inputs whose rows end in each kind of order."""


def _statements() -> list[str]:
    made = [f"SELECT x, y + 1 AS z, upper(s) AS s FROM a [{w}] WHERE d > 0 OR d IS NULL" for w in _WINDOWS]
    made += [f"SELECT {_ALL} FROM a [ROWS 2]", f"SELECT {_ALL} FROM a [RANGE 4 SLIDE 2]"]
    for order in _ORDERS.values():
        made += [
            f"SELECT s, {_AGGREGATES} FROM {order} GROUP BY s",
            f"SELECT x, s, COUNT(*) AS n FROM {order} GROUP BY x, s",
            f"SELECT {_AGGREGATES} FROM {order}",
            f"SELECT x, COUNT(*) AS n FROM {order} GROUP BY x HAVING COUNT(*) > 1",
            f"SELECT n, COUNT(*) AS k FROM (SELECT x, COUNT(*) AS n FROM {order} GROUP BY x) AS g GROUP BY n",
            f"SELECT DISTINCT x FROM {order}",
            f"SELECT DISTINCT s, y FROM {order}",
            *(f"{kind}(SELECT x, s FROM {order})" for kind in ("ISTREAM", "DSTREAM", "RSTREAM")),
        ]
    made += _set_operations() + _joins() + _TEXTS
    made += [
        "SELECT x FROM a WHERE twice(x) > 2 AND y > 1",
        "SELECT x FROM a WHERE x > 1 OR s = 'abc' OR y < 3",
    ]
    return made


_TEXTS = [
    "SELECT length(s) AS n, substring(s, 2, 1) AS m, s || '!' AS o FROM a [RANGE 4] WHERE s < 'b'",
    "SELECT l.x FROM a [RANGE 4] AS l, c [RANGE 4] AS r WHERE l.s < r.s",
    "SELECT x FROM a [RANGE 4] WHERE starts_with(s, 'a') OR ends_with(s, 'a') OR contains(s, 'b')",
    "SELECT l.x FROM a [RANGE 4] AS l, c [RANGE 4] AS r WHERE contains(l.s, r.s)",
]
"""What is done with strings."""


def _set_operations() -> list[str]:
    made = []
    for word in ("INTERSECT", "EXCEPT", "UNION"):
        for all_ in ("", " ALL"):
            for window in _WINDOWS:
                made.append(f"SELECT x FROM a [{window}] {word}{all_} SELECT x FROM c [RANGE 3]")
                made.append(f"SELECT s, y FROM c [RANGE 4] {word}{all_} SELECT s, y FROM a [{window}]")
    return made


def _joins() -> list[str]:
    anti = "LEFT ANTI JOIN"
    made = []
    for window in _WINDOWS:
        made += [
            f"SELECT l.x, r.s FROM a [{window}] AS l, c [RANGE 4] AS r WHERE l.x = r.x",
            f"SELECT l.x FROM a [{window}] AS l, a [RANGE 3] AS r WHERE l.s = r.s AND l.y = r.y AND l.d <> r.d",
            f"SELECT l.x FROM a [{window}] AS l, c [RANGE 4] AS r WHERE l.x < r.x",
            (
                f"SELECT l.x FROM a [{window}] AS l, c [RANGE 4] AS r, a [RANGE 2] AS m "
                "WHERE l.x = r.x AND r.s = m.s"
            ),
            (
                f"SELECT l.x FROM a [{window}] AS l, c [RANGE 4] AS r, a [RANGE 2] AS m "
                "WHERE l.x = r.x AND r.x = m.x AND l.y < m.y"
            ),
            f"SELECT l.x, n.v FROM a [{window}] AS l, n WHERE l.x = n.k",
            f"SELECT l.x, o.v FROM a [{window}] AS l, o WHERE l.x = o.k",
            f"SELECT l.x, n.v FROM a [{window}] AS l, c [RANGE 4] AS r, n WHERE l.x = n.k AND r.x = n.k",
            f"SELECT l.x, o.v FROM a [{window}] AS l, c [RANGE 4] AS r, o WHERE l.s = o.v AND r.s = l.s",
            f"SELECT l.x, l.s FROM a [{window}] AS l {anti} c [RANGE 3] AS r ON l.x = r.x",
            f"SELECT l.x, l.s FROM c [RANGE 4] AS l {anti} a [{window}] AS r ON l.s = r.s AND l.x = r.x",
            (
                f"SELECT l.x FROM a [{window}] AS l WHERE NOT EXISTS "
                "(SELECT 1 FROM c [RANGE 3] AS r WHERE r.x > l.x)"
            ),
        ]
    made.append("SELECT l.x FROM a [RANGE 4] AS l, a [RANGE 5] AS r WHERE upper(l.s) = upper(r.s)")
    made.append("SELECT l.x FROM a [RANGE 4] AS l, a [RANGE 5] AS r WHERE l.d = r.f")
    return made


@dataclass(frozen=True, slots=True)
class Warmed:
    """What warming has done."""

    seconds: float
    """In all."""
    compiled: int
    """Kernels that were not in the cache yet, with the types they were wanted for."""
    compiling: float
    """Seconds that these took."""


@dataclass(frozen=True, slots=True)
class _Feed:
    """Rows at an instant, before the clock's base is added."""

    at: int
    ordinal: int

    def row(self, timestamp: bool) -> dict[str, object]:
        k, gap = self.ordinal % 3, self.ordinal % 4 == 3
        return {
            "ts": _instant(self.at) if timestamp else self.at,
            "x": None if gap else k, "y": k * 2**40, "d": None if gap else k / 2, "f": k / 4,
            "s": None if gap else "abc"[k] * 9, "b": k == 0, "i": k, "t": _instant(k), "o": k, "e": None,
        }  # fmt: skip


def _instant(seconds: int) -> pa.TimestampScalar:
    return pa.scalar(seconds * 1_000_000, pa.timestamp("us")).as_py()


def _session(statements: Sequence[str], options: Options, *, timestamp: bool = False) -> None:
    session = Session(options)
    time_type, delay = ("TIMESTAMP", "INTERVAL 1 SECOND") if timestamp else ("BIGINT", "INTERVAL 1")
    for stream in ("a", "c"):
        session.execute(f"CREATE STREAM {stream} {_COLUMNS.format(time=time_type, delay=delay)}")
    session.create_table("n", [{"k": 1, "v": "u"}, {"k": 2, "v": None}])
    session.create_table("o", [{"k": 1, "v": "abc"}], retroactive=True)
    session.create_function("twice", lambda v: None if v is None else 2 * v, "BIGINT")
    queries = [session.query(text) for text in statements]
    for stretch in range(3):
        start = 20 * stretch
        for stream in ("a", "c"):
            _feed(session, stream, start, timestamp)
        session.update_table("n", insert=[{"k": 0, "v": "w"}])
        session.update_table("o", insert=[{"k": 2, "v": "c"}], delete=[{"k": 1, "v": "abc"}])
        session.advance(_instant(start + 12) if timestamp else start + 12)
        session.update_table("o", insert=[{"k": 1, "v": "abc"}], delete=[{"k": 2, "v": "c"}])
    for query in queries:
        query.changes()
        if query.pattern != "MONOTONIC":
            query.snapshot()
    session.late("a")
    if timestamp:  # a row too far ahead
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            far = [_Feed(at, 1).row(timestamp) for at in (70, 7 * 10**9)]
            schema = {field.name: field.type.arrow for field in session.catalog.streams["a"].schema}
            session.push("a", far)
            session.push("a", pa.Table.from_pylist(far, schema=pa.schema(schema)))


def _feed(session: Session, stream: str, start: int, timestamp: bool) -> None:
    """In order as Arrow; a row alone; out of order and late as Python rows."""
    schema = {field.name: field.type.arrow for field in session.catalog.streams[stream].schema}
    in_order = [_Feed(start + k // 2, k).row(timestamp) for k in range(12)]
    session.push(stream, pa.Table.from_pylist(in_order, schema=pa.schema(schema)))
    session.push(stream, [_Feed(start + 7, 1).row(timestamp)])
    session.push(stream, [_Feed(start + at, at).row(timestamp) for at in (10, 8, 9, 9, 8, 1, 11, 12)])


_EVERY_EXPIRY = [
    "SELECT l.x, r.y FROM a [RANGE 4] AS l, c [RANGE 6] AS r WHERE l.x = r.x",
    "SELECT DISTINCT x FROM a [RANGE 4]",
    "SELECT DISTINCT s, y FROM a [RANGE 4]",
    "SELECT x FROM a [RANGE 4] EXCEPT ALL SELECT x FROM c [RANGE 6]",
    "SELECT x FROM a [RANGE 4] INTERSECT SELECT x FROM c [RANGE 6]",
    "SELECT x, COUNT(*) AS n FROM a [RANGE 4] GROUP BY x",
    "SELECT x, s FROM a [RANGE 4] AS l WHERE NOT EXISTS (SELECT 1 AS one FROM c [RANGE 6] AS r WHERE r.x = l.x)",
    "SELECT l.x, m.s FROM a [RANGE 4] AS l LEFT ANTI JOIN c [RANGE 6] AS r ON r.x = l.x JOIN c [RANGE 3] AS m ON l.x = m.x",
]

_GROWING = [
    "SELECT l.s FROM a [RANGE 2] AS l, a [RANGE 3] AS r WHERE l.s = r.s",
    "SELECT l.s FROM a [ROWS 2000] AS l, a [RANGE 3] AS r WHERE l.s = r.s",
    "SELECT s, COUNT(*) AS n, MAX(s) AS m FROM a [RANGE 2] GROUP BY s",
    "SELECT s FROM a [ROWS 3000] EXCEPT ALL SELECT s FROM a [RANGE 1]",
    "SELECT DISTINCT s FROM a [RANGE 2]",
]


def _growth() -> None:
    """Enough different strings for tables to grow and for the string pool to be swept."""
    session = Session(Options())
    session.create_stream("a", {"ts": "BIGINT", "s": "STRING"}, time="ts")
    for statement in _GROWING:
        session.query(statement)
    for at in range(0, 40, 4):
        count = 1200
        texts = [f"{at} {k}" for k in range(count)]
        session.push("a", {"ts": [at + k * 4 // count for k in range(count)], "s": texts})
    session.advance(100)


def _waiting() -> None:
    """More rows wait by rank than there was room for at first."""
    session = Session(Options(budget=5))
    for stream in ("a", "b"):
        session.create_stream(stream, {"ts": "BIGINT", "x": "INT"}, time="ts")
    ranks = " ".join(f"RANK {n} CRITERIA (l.x > {60 - n})" for n in range(1, 7))  # so many are asked at once
    session.query(f"SELECT l.x FROM a [RANGE 9] AS l, b [RANGE 9] AS r WHERE l.x = r.x {ranks}")
    for at in (1, 2):
        for stream in ("a", "b"):
            session.push(stream, {"ts": [at] * 60, "x": list(range(60))})
        session.advance(at)
    session.drain()


def _suppressed() -> None:
    """With a budget: rows of a and b that meet, and nobody in c."""
    session = Session(Options(budget=50, demand="jit"))
    for stream in ("a", "b", "c"):
        session.create_stream(stream, {"ts": "BIGINT", "x": "INT", "y": "INT"}, time="ts")
    session.query(
        "SELECT a.x FROM a [RANGE 9], b [RANGE 9], c [RANGE 9] WHERE a.x = b.x AND b.y = c.y"
        " RANK 1 CRITERIA (a.x > 3)"
    )
    for at in range(1, 9):
        for stream in ("a", "b"):
            session.push(stream, {"ts": [at] * 9, "x": list(range(9)), "y": [at] * 9})
        session.advance(at)
    session.drain()


def _crowd() -> None:
    """So many queries for a value each that only words of lineage with a bit are looked at."""
    session = Session(Options())
    session.create_stream("a", {"ts": "BIGINT", "x": "INT"}, time="ts")
    for number in range(1040):
        session.query(f"SELECT ts FROM a WHERE x = {number}")
    session.push("a", {"ts": [1, 2, 3], "x": [1, 5, None]})
    session.advance(3)


def _together() -> None:
    """Queries that all rows concern, so that rows ask all filters at once: counted, and then asked for; and joins of pairs."""
    session = Session(Options(join="eddy"))
    for stream in ("a", "b"):
        session.create_stream(stream, {"ts": "BIGINT", "x": "INT"}, time="ts")
    queries = [session.query(f"SELECT ts FROM a WHERE x >= {number}") for number in (0, 1)]
    for at in (1, 2, 3):
        session.push("a", {"ts": [at] * 9, "x": list(range(9))})
        session.advance(at)
        if at > 1:
            queries[0].changes()
    for number in (0, 1):
        session.query(
            f"SELECT l.x FROM a [RANGE 3] AS l, b [RANGE 3] AS r WHERE l.x = r.x AND r.x > {number}"
        )
    for at in (4, 5):
        for stream in ("a", "b"):
            session.push(stream, {"ts": [at] * 3, "x": [1, 2, 3]})
        session.advance(at)
        assert session.engine.sharing is not None
        for stem in session.engine.sharing.confluence.stems.values():
            stem.apart = True  # as if each row were wanted by others


def _asking() -> None:
    """Rows of b have many partners that c has nobody for, asked and unasked; one join compares all with all, and a tree stops keeping anything."""
    cases = (
        ("mjoin", "off", ""),
        ("mjoin", "jit", ""),
        ("mjoin", "jit", " AND b.y = c.x"),
        ("tree", "jit", ""),
    )
    for join, demand, cycle in cases:
        session = Session(Options(join=join, demand=demand))
        for stream in ("a", "b", "c"):
            session.create_stream(stream, {"ts": "BIGINT", "x": "INT", "y": "INT"}, time="ts")
        session.query(
            f"SELECT a.x FROM a [RANGE 90], b [RANGE 90], c [RANGE 90] WHERE a.x = b.x AND a.y = c.y{cycle}"
        )
        for stream, y in (("a", 1), ("b", 2), ("c", 3)):
            session.push(stream, {"ts": list(range(900)), "x": [1] * 900, "y": [y] * 900})
        session.advance(900)


def _dealt() -> None:
    """Rows of a file, of which a cell picks its own."""
    kinds = (Type.BIGINT, Type.DATE, Type.STRING)
    made = (pa.string() if kind is Type.STRING else pa.int32() for kind in kinds)
    rows = pa.table({f"c{i}": pa.array([None], type_) for i, type_ in enumerate(made)})
    key = tuple(Column(i, kind, f"c{i}") for i, kind in enumerate(kinds))
    Share(Routing((Axis(2, key),)), 0, (0, 1, 2)).rows(rows)


_TREES = [
    "SELECT l.x FROM a [RANGE 4] AS l, c [RANGE 6] AS r, a [RANGE 5] AS m WHERE l.x = r.x AND r.s = m.s",
    "SELECT l.x FROM a [RANGE 4] AS l, c [RANGE 6] AS r, a [RANGE 5] AS m WHERE l.x = r.x AND r.x = m.x AND l.y = m.y",
]


_RANKED = [
    "SELECT l.x FROM a [RANGE 4] AS l, c [RANGE 6] AS r WHERE l.x = r.x RANK 1 CRITERIA (l.x IS NOT NULL AND l.y <= r.y)",
    "SELECT l.x FROM a [RANGE 4] AS l, c [RANGE 6] AS r, a [RANGE 5] AS m WHERE l.x = r.x AND l.y = m.y RANK 1 CRITERIA (l.y > 1)",
    "SELECT l.x FROM a [RANGE 4] AS l, c [RANGE 6] AS r, n WHERE l.x = r.x AND n.k = l.x RANK 1 CRITERIA (l.y > 1)",
    "SELECT x, COUNT(*) AS n FROM a [RANGE 4] GROUP BY x LIFESPAN 100 RANK 1 CRITERIA (y > 1)",
]


def _sums() -> None:
    """Sums that slide, of none to more arguments than there is a kernel of its own for."""
    session = Session(Options())
    names = [f"c{number}" for number in range(MAX_UNROLLED + 1)]
    session.create_stream("a", {"ts": "BIGINT", **dict.fromkeys(names, "INT")}, time="ts")
    for count in range(len(names) + 1):
        wanted = ", ".join(["COUNT(*) AS n", *(f"SUM({name}) AS {name}" for name in names[:count])])
        session.query(f"SELECT {wanted} FROM a [RANGE 2] GROUP BY c0")
    session.push("a", {"ts": [1, 2, 5], **{name: [1, 2, 3] for name in names}})
    session.advance(9)


def _crossing() -> None:
    """From one stage to the next over cells: a row goes and comes back in one instant."""
    session = Session(Options())
    session.engine = Cells(session.catalog, 2)  # type: ignore[assignment]  # the same methods
    for stream in ("a", "b"):
        session.create_stream(stream, {"ts": "BIGINT", "x": "INT", "s": "STRING"}, time="ts")
    session.query("SELECT DISTINCT a.s FROM a [RANGE 10], b [PARTITION BY x ROWS 1] WHERE a.x = b.x")
    for stream in ("a", "b"):
        session.push(stream, {"ts": [1, 5], "x": [1, 1], "s": ["u", "u"]})
    session.advance(9)


def _promising() -> None:
    """Which values are promising is looked up once some are; a few rows promise nothing."""
    Table(np.array([1]), np.array([0])).find(np.array([1]))


_TIMED = [
    "SELECT x, MIN(ts) AS t, MAX(s) AS s FROM a [RANGE 5 SECONDS] GROUP BY x",
    "SELECT DISTINCT x, t FROM a [RANGE 6 SECONDS SLIDE 3 SECONDS]",
    "SELECT l.x FROM a [RANGE 5 SECONDS] AS l, c [ROWS 3] AS r WHERE l.s LIKE 'a%' AND l.t = r.t",
]


def _expiries() -> None:
    for expiry in ("upa", "direct", "negative", "hybrid"):
        _session(_EVERY_EXPIRY, Options(expiry=expiry, eager=1))


def _trees() -> None:
    for demand in ("off", "jit"):
        _session(_TREES, Options(join="tree", demand=demand))


PHASES: tuple[tuple[str, Callable[[], None]], ...] = (
    ("every operator", lambda: _session([*_statements(), _RANKED[0]], Options())),
    ("times", lambda: _session(_TIMED, Options(), timestamp=True)),
    ("growing tables", _growth),
    ("sliding sums", _sums),
    ("many queries", _crowd),
    ("shared joins", _together),
    ("every expiry", _expiries),
    ("ranks", lambda: _session(_RANKED, Options(budget=5))),
    ("budgets", _waiting),
    ("demand with a budget", _suppressed),
    ("promises", _promising),
    ("cells", _dealt),
    ("stages", _crossing),
    ("joins on demand", _asking),
    ("trees of joins", _trees),
)
"""What is run, the most common first: an interrupted run keeps what was compiled."""


def warm(shown: Callable[[str], None] = lambda _: None) -> Warmed:
    """Compile or load every kernel; `shown` hears of each part before it is run."""
    begin = time.perf_counter()
    with silenced() as notice:
        kernels, seconds = notice.kernels, notice.seconds
        for name, run in PHASES:
            shown(name)
            run()
        set_warm()
        return Warmed(time.perf_counter() - begin, notice.kernels - kernels, notice.seconds - seconds)
