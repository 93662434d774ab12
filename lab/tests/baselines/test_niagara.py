"""Static plans and the engine give every query the same rows, which a loop over all pairs gives too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock_lab.baselines import cacq, niagara, stocks, udf
from penstock_lab.baselines.stocks import Market, in_order

PLANS = {"push-down": niagara.PushDown, "join-first": niagara.JoinFirst}


def given(program: Any, market: Market) -> list[pa.Table]:
    """All that each query was given."""
    return [in_order(tables) for tables in zip(*(program(q) for q in market.quotes), strict=True)]


def pairs(market: Market, constants: Sequence[int]) -> list[list[tuple[int, int]]]:
    """When and which story, for every query, the plain way."""
    articles = market.articles.to_pylist()
    quotes = [row for batch in market.quotes for row in batch.to_pylist()]
    both = [(q, a) for q in quotes for a in articles if q["symbol"] == a["symbol"]]
    return [sorted((q["ts"], a["story"]) for q, a in both if q["price"] > c) for c in constants]


@pytest.mark.parametrize("per_symbol", [1, 3])
@pytest.mark.parametrize("queries", [1, 2, 17])
def test_all_plans_give_every_query_its_rows(queries: int, per_symbol: int) -> None:
    market = stocks.market(2, symbols=30, per_symbol=per_symbol)
    constants = stocks.constants(queries)
    engine = given(cacq.by_constants(market, constants, penstock.connect()), market)
    for name, plan in PLANS.items():
        assert given(plan(market.articles, constants, penstock.connect()), market) == engine, name
    found = [list(zip(t["__ts"].to_pylist(), t["story"].to_pylist(), strict=True)) for t in engine]
    assert found == pairs(market, constants)
    assert len(found[0]) == 2 * 30 * per_symbol


def test_a_quote_without_articles_and_a_query_without_quotes() -> None:
    market = stocks.market(1, symbols=20)
    fewer = Market(market.articles.slice(0, 5), market.quotes)
    constants = [stocks.PRICES, 0]
    engine = given(cacq.by_constants(fewer, constants, penstock.connect()), fewer)
    assert [t.num_rows for t in engine] == [0, 5]
    for name, plan in PLANS.items():
        assert given(plan(fewer.articles, constants, penstock.connect()), fewer) == engine, name


def test_constants_differ_and_the_first_lets_everything_through() -> None:
    made = stocks.constants(500)
    assert made[0] == 0 and len(set(made)) == 500
    assert all(0 <= c < stocks.PRICES for c in made)


@pytest.mark.parametrize("per_symbol", [1, 4])
def test_functions_above_the_join_give_what_functions_below_it_give(per_symbol: int) -> None:
    market = stocks.market(2, symbols=25, per_symbol=per_symbol)
    predicates = [udf.predicate(c, seed, longest=3) for seed, c in enumerate(stocks.constants(4))]
    engine = given(cacq.by_functions(market, predicates, penstock.connect()), market)
    assert given(udf.JoinFirst(market.articles, predicates, penstock.connect()), market) == engine
    assert engine[0].num_rows == 2 * 25 * per_symbol > engine[1].num_rows


@pytest.mark.parametrize("per_symbol", [1, 4])
def test_functions_are_applied_to_quotes_by_the_engine_and_to_joined_rows_by_the_static_plan(
    per_symbol: int,
) -> None:
    market = stocks.market(1, symbols=25, per_symbol=per_symbol)
    seen: list[int] = []

    def wanted(prices: pa.Array) -> pa.Array:
        seen.append(len(prices))
        return pa.array(np.ones(len(prices), bool))

    cacq.by_functions(market, [wanted], penstock.connect())(market.quotes[0])
    below, seen[:] = sum(seen), []
    udf.JoinFirst(market.articles, [wanted], penstock.connect())(market.quotes[0])
    assert (below, sum(seen)) == (25, 25 * per_symbol)


def test_the_time_that_a_function_takes_follows_from_price_and_seed() -> None:
    prices = np.arange(1, 200, dtype=np.int32)
    out = np.empty(len(prices), bool)
    one, same, other = (int(udf._spin(prices, np.uint64(s), 50, 100, out)) for s in (1, 1, 3))
    assert one == same != other
    assert out.tolist() == (prices > 100).tolist()


def test_counting_takes_nothing_away() -> None:
    market = stocks.market(1, symbols=20)
    engine = cacq.by_constants(market, [0, stocks.PRICES // 2], penstock.connect())
    counted = engine.count(market.quotes[0])
    assert counted == sum(q.changes().num_rows for q in engine.queries) > 20
