"""Shared = alone where pushes are so large that the engine takes them in several steps, and few rows where it takes them late."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from tests.equivalence.crowd_play import by_itself
from tests.equivalence.crowd_queries import Writer
from tests.oracle.schema import Schema, Stream

COLUMNS = (("ts", "TIME"), ("k", "INT"), ("x", "INT"), ("y", "BIGINT"), ("d", "DOUBLE"), ("s", "STRING"))
SCHEMA = Schema((Stream("a", COLUMNS), Stream("b", COLUMNS)))
JOINS = (
    "SELECT a.k, a.x, b.d FROM a [RANGE 200] AS a, b [RANGE 100] AS b WHERE a.k = b.k",
    "SELECT a.k, b.s FROM a [RANGE 200] AS a, b [RANGE 100] AS b WHERE a.k = b.k AND a.x < b.x",
    "SELECT a.k, b.s FROM a [RANGE 50] AS a, b [ROWS 300] AS b WHERE a.k = b.k AND b.s = 'a' AND a.x > 2",
    "SELECT l.k, r.x FROM a [RANGE 80] AS l, a [RANGE 300] AS r WHERE l.k = r.k AND l.y <> r.y",
)
CUTS = (0, 90_000, 90_007, 150_000)
"""More than a slice, a few rows, and the rest."""


def rows(seed: int) -> pa.Table:
    rng, n = np.random.default_rng(seed), CUTS[-1]
    return pa.table({
        "ts": np.arange(n) // 10,
        "k": rng.integers(0, 20_000, n).astype(np.int32),
        "x": pa.array(rng.integers(-2, 7, n).astype(np.int32), mask=rng.random(n) < 0.05),
        "y": rng.choice([-(2**63), -1, 0, 1, 2, 3, 2**63 - 1], n),
        "d": rng.integers(-4, 8, n) / 4,
        "s": pa.array(rng.choice(["", "a", "b", "ab", "A"], n), mask=rng.random(n) < 0.05),
    })  # fmt: skip


def told(
    options: dict[str, Any], queries: dict[str, tuple[str, int]], fed: dict[str, pa.Table]
) -> dict[str, pa.Table]:
    """The changes of queries, each registered before the push of this number, in an order of their own."""
    session = penstock.connect(**options)
    session.execute(SCHEMA.ddl())
    for stream in SCHEMA.streams:
        session.query(f"SELECT ts FROM {stream.name} [NOW] WHERE k < 0", name=f"keeper_{stream.name}")
    made: dict[str, Any] = {}
    for number, (begin, end) in enumerate(pairwise(CUTS)):
        made |= {n: session.query(text, name=n) for n, (text, when) in queries.items() if when == number}
        for stream, table in fed.items():
            session.push(stream, table.slice(begin, end - begin))
    session.advance(CUTS[-1])
    found = {}
    for name, query in made.items():
        changes = query.changes()
        assert query.matched == pc.sum(pc.equal(changes["__op"], "+")).as_py() or not changes.num_rows
        names = [(f"{i}", "ascending") for i in range(changes.num_columns)]
        plain = changes.rename_columns([n for n, _ in names])
        found[name] = plain.take(pc.sort_indices(plain, sort_keys=names))
    return found


@pytest.mark.slow
def test_large_pushes() -> None:
    fed = {"a": rows(1), "b": rows(2)}
    writer = Writer(random.Random("slices"), SCHEMA, functions=False)
    texts = [writer.selection().text for _ in range(16)] + list(JOINS)
    queries = {f"q{i}": (text, i % 3) for i, text in enumerate(texts)}
    together = told({}, queries, fed)
    for number, (name, query) in enumerate(queries.items()):
        alone = told(by_itself(number), {name: query}, fed)[name]
        assert together[name].equals(alone), query
    assert sum(table.num_rows > 1000 for table in together.values()) > 10
