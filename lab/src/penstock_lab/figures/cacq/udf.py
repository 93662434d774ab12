"""Time against articles a quote, where every query has a costly function of the quote: below the join, or above the only one."""

from __future__ import annotations

from itertools import pairwise

from penstock_lab.baselines import cacq, stocks, udf
from penstock_lab.benchmarks.points import Point
from penstock_lab.figures.bars import at_least, at_most
from penstock_lab.figures.cacq.chart import Chart, Data, Sample, Sizes
from penstock_lab.figures.cacq.niagara import CACQ, JOIN_FIRST, in_turn
from penstock_lab.figures.runner import Connect, Tell

QUERIES = 20


def measure(sizes: Sizes, tell: Tell, connect: Connect) -> Data:
    samples = []
    constants = stocks.constants(QUERIES)
    predicates = [udf.predicate(c, seed) for seed, c in enumerate(constants)]
    for articles in sizes.xs:
        market = stocks.market(sizes.turns + 1, symbols=sizes.rows, per_symbol=articles)
        programs = {
            CACQ: cacq.by_functions(market, predicates, connect()),
            JOIN_FIRST: udf.JoinFirst(market.articles, predicates, connect()),
        }
        took = in_turn(programs, market, f"with {articles} articles a quote", tell)
        samples += [Sample(name, articles, times) for name, times in took.items()]
    return Data(samples)


def bars(data: Data) -> list[Point]:
    (first, theirs), (last, most) = (data.both(CACQ, JOIN_FIRST)[i] for i in (0, -1))
    return [
        at_most("time of CACQ against join-first, one article a quote", first.against(theirs), 1.25),
        at_least(f"time of join-first against CACQ, {last.x:.0f} articles a quote", most.against(last), 3),
    ]


def paper(data: Data) -> list[Point]:
    gaps = [theirs.against(mine) for mine, theirs in data.both(CACQ, JOIN_FIRST)]
    steps = [b / a for a, b in pairwise(gaps)]
    return [at_least("the gap grows with the articles, at the least step", min(steps), 1)]


def lead(data: Data) -> str:
    mine, theirs = data.last(CACQ), data.last(JOIN_FIRST)
    return f"with {mine.x:.0f} articles a quote a push takes {mine.value:.3g} ms with CACQ and {theirs.value:.3g} with join-first"


CHART = Chart(
    "cacq-udf",
    "time for a push against articles a quote, queries with costly functions",
    "articles a quote",
    (("ms_a_push", "CPU ms for a push"),),
    "at most a quarter slower than join-first with one article a quote, at least three times as fast with the most",
    "functions run before the join, join-first must run them after it: the gap grows with the articles of a quote",
    measure,
    Sizes((1, 4, 10), rows=500, turns=3),
    Sizes(tuple(range(1, 11)), rows=stocks.QUOTES, turns=3),
    lead,
    bars,
    paper,
    "the static plan with one join, calling the same functions on the same quotes, in turn",
    scales=("linear", "log"),
)
