"""A standing query's text over the rows alive at an instant, answered by DuckDB."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import duckdb
import pyarrow as pa

from penstock_lab.figures.tp.feed import Feed, times

Bag = Counter[tuple[object, ...]]


def plain(text: str) -> str:
    """The SELECT alone: neither comments nor windows nor what comes after."""
    text = re.sub(r"--.*|\[[^]]*\]", "", text)
    return re.split(r"^(?:WINDOW|LIFESPAN|RANK) ", text, flags=re.MULTILINE)[0]


def criteria(text: str) -> list[str]:
    return re.findall(r"^RANK \d+ CRITERIA (\(.*\))$", text, flags=re.MULTILINE)


def alive(rows: pa.RecordBatch, window: int, at: int, slide: int = 1) -> pa.RecordBatch:
    """Those whose window has begun and not ended, edges moved up to where windows slide."""
    ts = times(rows)
    begin, end = (-(-t // slide) * slide for t in (ts, ts + window))
    return rows.filter(pa.array((begin <= at) & (at < end)))


def loaded(relations: Mapping[str, pa.Table | pa.RecordBatch]) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect(config={"threads": 1})
    con.execute("CREATE MACRO distance(a, b, c, d) AS sqrt((a - c) * (a - c) + (b - d) * (b - d))")
    for name, rows in relations.items():
        con.register(name, pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows)
    return con


def answer(text: str, relations: Mapping[str, pa.Table | pa.RecordBatch]) -> Bag:
    return bag(loaded(relations).execute(plain(text)).fetchall())


def bag(rows: list[tuple[object, ...]]) -> Bag:
    """Doubles to nine digits: sums are added up in another order."""
    return Counter(tuple(float(f"{v:.9g}") if isinstance(v, float) else v for v in row) for row in rows)


def shown(snapshot: pa.Table) -> Bag:
    return bag([tuple(row.values()) for row in snapshot.to_pylist()])


def same_rows(a: Feed, b: Feed) -> bool:
    return all(a.streams[name].equals(b.streams[name]) for name in a.streams)
