"""Static grouped plans for queries that differ in a constant, as vectorised programs.

::

    push-down   quotes ⋈ constants ─ split ─┬ ⋈ articles ─▶ query 1      one join a query, all on one hash table
                                            └ ⋈ articles ─▶ query 2
    join-first  quotes ⋈ articles ─ ⋈ constants ─ split ─┬▶ query 1      one join; wider rows are copied
                                                         └▶ query 2

The join with the table of constants makes a copy of a row for every query that wants it. It is as quick as a grouped filter: constants are sorted,
and those below a price are the first so many.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.data.memory import room, taken
from penstock.surfaces.baselines.stocks import SELECTED
from penstock.surfaces.benches import changes
from penstock.surfaces.benches.reference import Keys, njit

Array = NDArray[Any]
Columns = dict[str, Array]
"""A relation: columns by name, of equal length."""

NAMES = (*SELECTED[0], *SELECTED[1])


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


@njit
def _partners(ids, begins):  # type: ignore[no-untyped-def]
    total, known = 0, len(begins) - 1
    for i in range(len(ids)):
        if ids[i] < known:
            total += begins[ids[i] + 1] - begins[ids[i]]
    return total


@njit
def _probe(ids, begins, order, left, right):  # type: ignore[no-untyped-def]
    at, known = 0, len(begins) - 1
    for i in range(len(ids)):
        if ids[i] < known:
            for j in range(begins[ids[i]], begins[ids[i] + 1]):
                left[at] = i
                right[at] = order[j]
                at += 1


class Articles:
    """The hash table: the articles of a symbol lie one after the other."""

    def __init__(self, articles: pa.RecordBatch) -> None:
        self.rows = read(articles)
        del self.rows["ts"]  # all came before the first quote
        self.keys = Keys()
        ids = self.keys.number(self.rows.pop("symbol"))
        self.order = np.argsort(ids, kind="stable").astype(np.int32)
        self.begins = np.concatenate([[0], np.cumsum(np.bincount(ids, minlength=self.keys.count))])

    def join(self, quotes: Columns) -> tuple[Columns, Array]:
        """Quotes with their articles, and which quote each is of."""
        ids = self.keys.number(quotes["symbol"])
        count = _partners(ids, self.begins)
        left, right = room(count, np.int32), room(count, np.int32)
        _probe(ids, self.begins, self.order, left, right)
        return copy(quotes, left) | copy(self.rows, right), left


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
    """Selections first: every query has a join of its own above the split, which looks up each of its copies in the one hash table.

    The joins run one after the other in one loop.
    """

    def __init__(self, articles: pa.RecordBatch, constants: Sequence[int]) -> None:
        self.articles, self.constants = Articles(articles), Constants(constants)

    def __call__(self, quotes: pa.RecordBatch) -> list[pa.Table]:
        copies, begins = split(*self.constants.join(read(quotes)))
        joined, of = self.articles.join(copies)
        return tables(joined, np.searchsorted(of, begins))


class JoinFirst:
    """One join for all: selections read rows that are wider, and more if a quote has several articles."""

    def __init__(self, articles: pa.RecordBatch, constants: Sequence[int]) -> None:
        self.articles, self.constants = Articles(articles), Constants(constants)

    def __call__(self, quotes: pa.RecordBatch) -> list[pa.Table]:
        joined, _ = self.articles.join(read(quotes))
        return tables(*split(*self.constants.join(joined)))
