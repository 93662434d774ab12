"""Static grouped plans for queries that differ in a constant: the engine's join, and around it vectorised programs.

::

    push-down   quotes ⋈ constants ─▶ copies ⋈ articles ─ split ─▶ query 1, query 2 …      joins of copies, on one hash table
    join-first  quotes ⋈ articles ─ ⋈ constants ─▶ copies ─ split ─▶ query 1, query 2 …    one join; wider rows are copied

The join with the table of constants makes a copy of a row for every query that wants it. It is as quick as a grouped filter: constants are sorted,
and those below a price are the first so many. The join of quotes and articles is the engine's own, alone in a session: what is compared is how
queries share it, not what else an engine does.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.types.memory import room, taken
from penstock_lab.baselines.stocks import DECLARATIONS, SELECTED, STOCK
from penstock_lab.benchmarks import changes
from penstock_lab.reference import njit

Array = NDArray[Any]
Columns = dict[str, Array]
"""A relation: columns by name, of equal length."""

NAMES = (*SELECTED[0], *SELECTED[1])
QUERY = pa.field("query", pa.int32())
NEVER = 1 << 60
"""An instant before which no more articles come."""


def read(batch: pa.RecordBatch) -> Columns:
    return {name: batch.column(name).to_numpy() for name in batch.schema.names}


def copy(rows: Columns, numbers: Array) -> Columns:
    """These rows, in memory of their own."""
    return {name: taken(values, numbers) for name, values in rows.items()}


def tables(rows: Columns, begins: Array) -> list[pa.Table]:
    """What every query is given, with the columns of `changes()`; its rows begin where `begins` says and end where the next one's do."""
    count = len(rows["ts"])
    arrays = [changes.plus(count), pa.array(rows["ts"]), pa.nulls(count, pa.int64())]
    arrays += [pa.array(rows[name]) for name in NAMES]
    whole = pa.Table.from_arrays(arrays, names=["__op", "__ts", "__exp", *NAMES])
    return [whole.slice(begin, end - begin) for begin, end in pairwise((*begins.tolist(), count))]


class Join:
    """Quotes with their articles, as an engine in which one query stands gives them. Copies of quotes carry the query they are for."""

    def __init__(self, articles: pa.RecordBatch, session: Any, *, copies: bool = False) -> None:
        self._session = session
        stock, article = DECLARATIONS.split(";")[:2]
        self._schema = STOCK.append(QUERY) if copies else STOCK
        session.execute(stock.replace("volume INT", "volume INT, query INT") if copies else stock)
        session.execute(article)
        self._names = (*NAMES, QUERY.name) if copies else NAMES
        wanted = ", ".join(
            [f"s.{n}" for n in self._names if n not in SELECTED[1]] + [f"a.{n}" for n in SELECTED[1]]
        )
        self._query = session.query(f"SELECT {wanted} FROM stocks s, articles a WHERE s.symbol = a.symbol")
        session.push("articles", articles)
        session.advance(NEVER, stream="articles")

    def __call__(self, quotes: Columns) -> Columns:
        if not len(quotes["ts"]):
            return {name: np.empty(0, np.int64) for name in ("ts", *self._names)}
        rows = [pa.array(quotes[name]) for name in self._schema.names]
        self._session.push("stocks", pa.RecordBatch.from_arrays(rows, schema=self._schema))
        self._session.advance(int(quotes["ts"][-1]))
        made = self._query.changes().combine_chunks()
        columns = {name: made.column(name).to_numpy() for name in self._names}
        return {"ts": made.column("__ts").to_numpy(), **columns}


@njit
def _copies(wanted, queries, rows, members, held):  # type: ignore[no-untyped-def]
    """The row and the query of every copy, and how many copies a query has."""
    at = 0
    for i in range(len(wanted)):
        for j in range(wanted[i]):
            rows[at] = i
            members[at] = queries[j]
            held[queries[j]] += 1
            at += 1


@njit
def _split(members, places, numbers):  # type: ignore[no-untyped-def]
    for i in range(len(members)):
        query = members[i]
        numbers[places[query]] = i
        places[query] += 1


class Constants:
    """The table of constants, each with its query."""

    def __init__(self, constants: Sequence[int]) -> None:
        self.count = len(constants)
        self.queries = np.argsort(np.array(constants), kind="stable").astype(np.int32)
        self.sorted = np.sort(np.array(constants, np.int32))

    def join(self, rows: Columns) -> tuple[Columns, Array, Array]:
        """A copy of a row for every query whose constant is below its price; the query of each; copies of each query."""
        wanted = np.searchsorted(self.sorted, rows["price"], side="left")
        total = int(wanted.sum())
        numbers, members = room(total, np.int32), room(total, np.int32)
        held = np.zeros(self.count, np.int64)
        _copies(wanted, self.queries, numbers, members, held)
        return copy(rows, numbers), members, held


def split(copies: Columns, members: Array, held: Array) -> tuple[Columns, Array]:
    """The copies query by query, and where each query's begin."""
    begins = np.cumsum(held) - held
    numbers = room(len(members), np.int32)
    _split(members, begins.copy(), numbers)
    return copy(copies, numbers), begins


class PushDown:
    """Selections first: every query joins copies of its own, each looked up in the one hash table of articles and put into that of quotes."""

    def __init__(self, articles: pa.RecordBatch, constants: Sequence[int], session: Any) -> None:
        self.join, self.constants = Join(articles, session, copies=True), Constants(constants)

    def __call__(self, quotes: pa.RecordBatch) -> list[pa.Table]:
        copies, members, _ = self.constants.join(read(quotes))
        joined = self.join(copies | {QUERY.name: members})
        members = joined.pop(QUERY.name).astype(np.int32, copy=False)
        return tables(*split(joined, members, np.bincount(members, minlength=self.constants.count)))


class JoinFirst:
    """One join for all: selections read rows that are wider, and more if a quote has several articles."""

    def __init__(self, articles: pa.RecordBatch, constants: Sequence[int], session: Any) -> None:
        self.join, self.constants = Join(articles, session), Constants(constants)

    def __call__(self, quotes: pa.RecordBatch) -> list[pa.Table]:
        return tables(*split(*self.constants.join(self.join(read(quotes)))))
