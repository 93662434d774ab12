"""Programs of the kind that users write in their first days: warming must leave nothing of them to compile.

Each is small in text but not in rows: some operators change their structures as these grow.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import penstock

ROWS = 3000
NOON = dt.datetime(2026, 1, 1, 12)


def _frame(seed: int, rows: int = ROWS, *, timestamps: bool = False) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    seconds = np.sort(random.integers(0, rows // 3, rows))
    times = NOON + pd.to_timedelta(seconds, unit="s") if timestamps else seconds
    return pd.DataFrame(
        {
            "ts": times,
            "k": random.integers(0, 40, rows),
            "s": random.choice(["ant", "bee", "cat", "dog"], rows),
            "v": random.normal(size=rows).round(3),
            "n": random.integers(0, 1000, rows),
        }
    )


def _as_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return frame.to_dict("records")


def _as_arrow(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


def _as_lists(frame: pd.DataFrame) -> dict[str, list[Any]]:
    return frame.to_dict("list")


def _run(
    statements: Sequence[str],
    form: Callable[[pd.DataFrame], Any],
    *,
    timestamps: bool = False,
    pieces: int = 3,
    **options: Any,
) -> None:
    """Both streams in some pieces, with a table; answers read in between and at the end."""
    session = penstock.connect(**options)
    kind, delay = ("TIMESTAMP", "INTERVAL 2 SECONDS") if timestamps else ("BIGINT", "INTERVAL 2")
    for stream in ("a", "b"):
        session.execute(
            f"CREATE STREAM {stream} (ts {kind}, k BIGINT, s STRING, v DOUBLE, n INT) WATERMARK ts DELAY OF {delay}"
        )
    session.create_table("names", [{"k": k, "name": f"name {k}"} for k in range(20)])
    session.create_table("limits", pd.DataFrame({"k": range(20), "most": range(20)}), retroactive=True)
    queries = [session.query(text) for text in statements]
    frames = {"a": _frame(1, timestamps=timestamps), "b": _frame(2, timestamps=timestamps)}
    for piece in range(pieces):
        for stream, frame in frames.items():
            session.push(stream, form(frame[piece * ROWS // pieces : (piece + 1) * ROWS // pieces]))
        if piece == 1:
            session.update_table("limits", insert=[{"k": 30, "most": 5}], delete=[{"k": 1, "most": 1}])
            session.update_table("names", insert=[{"k": 30, "name": "late"}])
        for query in queries:
            query.changes()
            if query.pattern != "MONOTONIC":
                query.snapshot()
    session.advance(NOON + dt.timedelta(hours=1) if timestamps else 10 * ROWS)
    for query in queries:
        query.changes()


SELECTIONS = [
    "SELECT ts, k, s FROM a WHERE v > 0.5",
    "SELECT k, s, v * 2 AS w FROM a [RANGE 60] WHERE s = 'cat' AND n BETWEEN 10 AND 900",
    "SELECT k FROM a [RANGE 60] WHERE s LIKE 'c%' OR k IN (1, 2, 3)",
    "SELECT k, CASE WHEN v > 0 THEN 'up' ELSE 'down' END AS way FROM a [RANGE 10]",
    "SELECT k, v FROM a [ROWS 10]",
    "SELECT s, v FROM a [PARTITION BY s ROWS 1]",
]
GROUPS = [
    "SELECT s, COUNT(*) AS c, SUM(n) AS total, AVG(v) AS mean FROM a [RANGE 60] GROUP BY s",
    "SELECT k, MIN(v) AS low, MAX(v) AS high FROM a [RANGE 60 SLIDE 10] GROUP BY k",
    "SELECT k, s, COUNT(DISTINCT n) AS c FROM a [RANGE 60] GROUP BY k, s HAVING COUNT(*) > 2",
    "SELECT COUNT(*) AS c, STDDEV(v) AS spread FROM a [RANGE 60]",
    "SELECT SUM(v) AS total FROM a [RANGE 60]",
    "SELECT s, SUM(n) AS total FROM a [RANGE 60] GROUP BY s",
    "SELECT s, COUNT(*) AS c, SUM(n) AS total, SUM(k) AS keys FROM a [RANGE 60] GROUP BY s",
    "SELECT s, SUM(n) AS a, SUM(k) AS b, SUM(n + k) AS c, AVG(n - k) AS d, AVG(n * 2) AS e FROM a [RANGE 60] GROUP BY s",
    "SELECT k, SUM(v) AS total FROM a [ROWS 100] GROUP BY k",
]
SETS = [
    "SELECT DISTINCT k FROM a [RANGE 60]",
    "SELECT DISTINCT k, s FROM a [RANGE 60]",
    "SELECT k FROM a [RANGE 60] EXCEPT SELECT k FROM b [RANGE 30]",
    "SELECT k, s FROM a [RANGE 60] INTERSECT SELECT k, s FROM b [RANGE 60]",
    "SELECT k FROM a [RANGE 60] UNION SELECT k FROM b [RANGE 60]",
    "SELECT k, v FROM a [RANGE 60] UNION ALL SELECT k, v FROM b [RANGE 60]",
]
JOINS = [
    "SELECT a.k, a.v, b.v AS w FROM a [RANGE 20], b [RANGE 20] WHERE a.k = b.k",
    "SELECT a.k, b.s FROM a [RANGE 20] JOIN b [RANGE 20] ON a.k = b.k AND a.s = b.s AND a.v < b.v",
    "SELECT a.k, names.name FROM a [RANGE 20], names WHERE a.k = names.k",
    "SELECT a.k, limits.most FROM a [RANGE 20], limits WHERE a.k = limits.k AND a.n > limits.most",
    "SELECT a.k, a.n FROM a [RANGE 20] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 20] WHERE b.k = a.k AND b.s = a.s)",
    "SELECT x.k FROM a [RANGE 5] AS x, b [RANGE 5] AS y, a [RANGE 5] AS z WHERE x.k = y.k AND y.n = z.n",
    "SELECT x.k FROM a [RANGE 5] AS x, b [RANGE 5] AS y, a [RANGE 5] AS z WHERE x.k = y.k AND y.s = z.s AND x.n = z.n",
    "SELECT a.k, b.n FROM a [RANGE 3], b [RANGE 3] WHERE a.v < b.v AND a.n > b.n",
]
OUTER = [
    "SELECT a.k, b.v FROM a [RANGE 20] LEFT JOIN b [RANGE 20] ON a.k = b.k AND a.s = b.s",
    "SELECT a.k, b.k AS other FROM a [RANGE 5] FULL JOIN b [RANGE 5] ON a.n = b.n",
    "SELECT a.k, b.v FROM a [RANGE 20] RIGHT JOIN b [RANGE 20] ON a.n = b.n",
]
NESTED = [
    "WITH busy AS (SELECT k, COUNT(*) AS c FROM a [RANGE 60] GROUP BY k) SELECT k FROM busy WHERE c > 3",
    "SELECT g.c, COUNT(*) AS groups FROM (SELECT k, COUNT(*) AS c FROM a [RANGE 60] GROUP BY k) AS g GROUP BY g.c",
    "SELECT names.name, COUNT(*) AS c, SUM(a.v) AS total FROM a [RANGE 60], names WHERE a.k = names.k GROUP BY names.name",
    "SELECT a.s, COUNT(*) AS c FROM a [RANGE 20], b [RANGE 20] WHERE a.k = b.k GROUP BY a.s",
    "SELECT DISTINCT a.s FROM a [RANGE 20], b [RANGE 20] WHERE a.k = b.k",
    "ISTREAM(SELECT k, COUNT(*) AS c FROM a [RANGE 60] GROUP BY k)",
]
TIMED = [
    "SELECT s, COUNT(*) AS c, AVG(v) AS mean FROM a [RANGE 1 MINUTE] GROUP BY s",
    "SELECT k, MAX(ts) AS last FROM a [RANGE 1 MINUTE SLIDE 10 SECONDS] GROUP BY k",
    "SELECT a.k, b.v FROM a [RANGE 20 SECONDS], b [RANGE 20 SECONDS] WHERE a.k = b.k",
    "SELECT DISTINCT s FROM a [RANGE 1 MINUTE]",
    "SELECT a.k, b.v FROM a [RANGE 20 SECONDS] LEFT JOIN b [RANGE 20 SECONDS] ON a.k = b.k AND a.s = b.s",
]
RANKED = [
    "SELECT a.k, b.v FROM a [RANGE 20], b [RANGE 20] WHERE a.k = b.k LIFESPAN 50 RANK 1 CRITERIA (a.v > 1)",
    "SELECT s, COUNT(*) AS c FROM a [RANGE 60] GROUP BY s LIFESPAN 50 RANK 1 CRITERIA (v > 1)",
]


def run_all(shown: Callable[[str], None] = lambda _: None) -> None:
    """Every kind alone, in every form in which rows come; then all at once, and with a budget."""
    kinds = {
        "selections": SELECTIONS,
        "groups": GROUPS,
        "sets": SETS,
        "joins": JOINS,
        "outer": OUTER,
        "nested": NESTED,
    }
    forms = (_as_rows, _as_lists, _as_arrow, lambda frame: frame)
    for number, (name, statements) in enumerate(kinds.items()):
        for form in (forms[number % 4], forms[(number + 2) % 4]):
            _run(statements, form)
        shown(name)
        for statement in statements:
            _run([statement], forms[(number + 1) % 4], pieces=10)
            shown(statement)
    _run([text for statements in kinds.values() for text in statements], lambda frame: frame)
    shown("all at once")
    for form in forms:
        _run(TIMED, form, timestamps=True)
    shown("timestamps")
    _run(RANKED, forms[2])
    shown("ranks")
    _run(RANKED, forms[2], budget=2000, pieces=30)
    shown("ranks with a budget")
