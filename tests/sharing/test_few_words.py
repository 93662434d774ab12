"""Very many queries: where a value leaves few of them, only their words of lineage are looked at (equality first)."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.operators.grouped_filter import grouped_filter
from penstock.sharing import eddy


@pytest.mark.parametrize("seed", range(6))
def test_counts_are_those_of_queries_by_themselves(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the predicates are: here few words are as many as there are."""
    monkeypatch.setattr(eddy, "MANY", 1)
    monkeypatch.setattr(grouped_filter, "FEW", 0)
    coin = random.Random(seed)
    shared, apart = (penstock.connect(share=share) for share in (True, False))
    texts = []
    for _ in range(150):
        parts = [f"x = {coin.randint(0, 30)}", f"y > {coin.randint(0, 9)}", f"s = '{coin.choice('abcd')}'"]
        parts += ["z IS NULL", f"z BETWEEN {coin.randint(0, 4)} AND 7", f"d < {coin.random():.2f}"]
        texts.append(" AND ".join(coin.sample(parts, coin.randint(1, 3))))
    for s in (shared, apart):
        s.execute(
            "CREATE STREAM a (ts BIGINT, x INT, y INT, z INT, s STRING, d DOUBLE) WATERMARK ts DELAY OF 0"
        )
        for number, text in enumerate(texts):
            s.query(f"SELECT x FROM a WHERE {text}", name=f"q{number}")
    rows = [
        {
            "ts": i,
            "x": coin.randint(0, 30),
            "y": coin.randint(0, 9),
            "z": coin.choice([None, *range(8)]),
            "s": coin.choice(["a", "b", "c", "d", None]),
            "d": coin.choice([coin.random(), float("nan"), None]),
        }
        for i in range(5000)
    ]
    for s in (shared, apart):
        s.push("a", rows)
        s.advance(5000)
    found = {name: query.matched for name, query in shared.queries.items()}
    assert found == {name: query.matched for name, query in apart.queries.items()}
    assert sum(found.values()) > 1000
    for name, query in shared.queries.items():
        assert query.changes().equals(apart.queries[name].changes()), name


def test_queries_for_one_value_each_look_at_few_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eddy, "MANY", 8)
    s = penstock.connect()
    s.execute("CREATE STREAM quotes (ts BIGINT, symbol STRING, price INT) WATERMARK ts DELAY OF 0")
    for number in range(600):
        s.query(f"SELECT ts FROM quotes WHERE symbol = 'S{number % 200}' AND price > {number % 90}")
    assert s.engine.sharing is not None
    held = s.engine.sharing.currents["quotes"].eddy
    by_subject = {str(o.filter.subject): o.filter.few(held.start) for o in held.operators.values()}
    assert held.words == 16 and by_subject["price"] is None
    few = by_subject["symbol"]
    assert few is not None and few[0][-1] <= 3 * len(few[0]), "three queries for a symbol, of 600"
    prices = np.arange(7000, dtype=np.int32) % 97
    names = pa.array([f"S{i}" for i in range(200)])
    s.push(
        "quotes",
        pa.RecordBatch.from_arrays(
            [pa.array(np.arange(7000)), names.take(pa.array(np.arange(7000) % 200)), pa.array(prices)],
            names=["ts", "symbol", "price"],
        ),
    )
    s.advance(7000)
    for number in (0, 199, 200, 399, 599):
        wanted = int(((np.arange(7000) % 200 == number % 200) & (prices > number % 90)).sum())
        query = list(s.queries.values())[number]
        assert query.matched == wanted == query.changes().num_rows
