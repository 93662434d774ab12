"""The engine on the same workload, through its public interface: a join and a predicate a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock_lab.baselines import stocks
from penstock_lab.baselines.stocks import Market
from penstock_lab.baselines.udf import Predicate


class Cacq:
    """A session in which these queries stand and the articles have come."""

    def __init__(self, market: Market, predicates: Sequence[str], session: Any) -> None:
        self.session = session
        self.session.execute(stocks.DECLARATIONS)
        self.queries = [self.session.query(stocks.sql(p), name=f"q{i}") for i, p in enumerate(predicates)]
        self.session.push("articles", market.articles)
        self.session.advance(market.last, stream="articles")

    def step(self, quotes: pa.RecordBatch) -> None:
        """The quotes of a push, all of them complete."""
        self.session.push("stocks", quotes)
        self.session.advance(int(quotes.column("ts")[-1].as_py()))

    def __call__(self, quotes: pa.RecordBatch) -> list[pa.Table]:
        """Every query's results."""
        self.step(quotes)
        return [query.changes() for query in self.queries]

    def count(self, quotes: pa.RecordBatch) -> int:
        """How many results there have been; nobody takes them."""
        self.step(quotes)
        return sum(query.matched for query in self.queries)


def by_constants(market: Market, constants: Sequence[int], session: Any) -> Cacq:
    return Cacq(market, [stocks.above(c) for c in constants], session)


def by_functions(market: Market, predicates: Sequence[Predicate], session: Any) -> Cacq:
    """Each query calls a function of its own."""
    for number, predicate in enumerate(predicates):
        session.create_function(f"wanted_{number}", predicate, returns="BOOLEAN", vectorized=True)
    return Cacq(market, [f"wanted_{number}(s.price)" for number in range(len(predicates))], session)
