"""Ticks of five hundred stocks, and posts about their businesses (the dissertation's §1.3.2, §5.5.1, §6.7.1).

The quotes of 18 July 2012 that the dissertation used are not shipped; these are made, and have what it tells of them. What
the stocks are is in `stocks`.

Ticks      The quotes were asked for stock by stock, again and again: a round of 500 tuples has every stock once. So tuples have
           the shares of stocks, and a window of 500 tuples has the whole market. Prices are geometric random walks.
Posts      Streams of subsectors, drawn at random. `promising`: that share of posts, in any hundred counted from the first, is
           of subsectors that have a stock with a level (News/Blog Data Set 1: 15 %). These subsectors take turns, so that a window
           has all of them. `named`: only so many of them are ever posted about (News/Blog DS25 to DS100), the same in all streams;
           that share of the posts stays as it is, so a named one has the more of them, the fewer there are. `broad`: streams that
           post about sectors as a whole, any of them. `alone`: no sector is posted about twice within so many seconds, so that a
           join with the stream makes no row twice.
Two uses   Chapter 6 joins by subsector (Stock Data Set 1: `each=23`, `promising=0.15`), chapter 7 by sector, where the stocks' own
           DS25 to DS100 say how many of the partners of a post about one of two sectors matter; a fifth of the posts are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock_lab.figures.tp.feed import Feed, stamps
from penstock_lab.figures.tp.load import MICROSECONDS, Floats, Ints, Load, rounds
from penstock_lab.figures.tp.stocks import SECTORS, STOCKS, SUBSECTORS, Stocks, business, listed

RETURN = 0.0004
"""Deviation of what a price changes by from tick to tick, relative to it: at a tick every ten seconds, 2 % a day."""

OPENING = 1_342_618_200
"""Seconds from the epoch to half past one (UTC) of 18 July 2012, when New York opens."""
STREAMS = ("news", "research")
"""What the aggregate query reads."""

_SEED = 500
_HUNDRED = 100


@dataclass(frozen=True, slots=True)
class Market:
    """The stocks, and the rows of `stock` and of the streams of posts."""

    stocks: Stocks
    feed: Feed


def declarations(streams: tuple[str, ...] = STREAMS) -> str:
    """`stock` and these streams of posts."""
    stock = (
        "CREATE STREAM stock (ts TIMESTAMP, symbol STRING, company STRING, sector STRING, subsector STRING, price DOUBLE,"
        " owned_by_company BOOLEAN, aggressive BOOLEAN, conservative BOOLEAN, under_evaluation BOOLEAN)"
        " WATERMARK ts DELAY OF INTERVAL 0 SECONDS;"
    )
    posts = (
        f"CREATE STREAM {name} (ts TIMESTAMP, sector STRING, subsector STRING)"
        " WATERMARK ts DELAY OF INTERVAL 0 SECONDS;"
        for name in streams
    )
    return "\n".join((stock, *posts))


def make(
    data_set: str = "DS1",
    seconds: float = 600.0,
    *,
    load: Load | None = None,
    streams: tuple[str, ...] = STREAMS,
    posts: Load | Mapping[str, Load] | None = None,
    broad: Collection[str] = (),
    promising: float | None = None,
    named: float = 1.0,
    alone: float | None = None,
    each: int = 25,
    seed: int = _SEED,
) -> Market:
    """So many seconds from the opening; `each` is the number of stocks at a level of DS1 (in chapter 6 it is 23)."""
    random = np.random.default_rng(seed)
    stocks = listed(data_set, each, random)
    start = OPENING * MICROSECONDS
    at = (load or Load(50.0)).arrivals(seconds, random)
    rows = {"stock": _ticks(start + at, stocks, random)}
    hot = significant(stocks)
    hot = hot[np.sort(random.permutation(len(hot))[: max(1, round(named * len(hot)))])] if named < 1 else hot
    for name in streams:
        if alone is not None:
            at, subsector = _spaced(seconds, alone, random)
        else:
            rate = posts[name] if isinstance(posts, Mapping) else posts
            at = (rate or Load(1.0)).arrivals(seconds, random)
            if name in broad:
                subsector = random.integers(0, len(SECTORS), len(at))
            else:
                subsector = _drawn(len(at), stocks, promising, hot, random)
        rows[name] = pa.RecordBatch.from_arrays(
            [stamps(start + at), *business(subsector)], names=["ts", "sector", "subsector"]
        )
    return Market(stocks, Feed(start, seconds, rows))


def _ticks(ts: Ints, stocks: Stocks, random: np.random.Generator) -> pa.RecordBatch:
    which = rounds(len(ts), STOCKS, random)
    level = stocks.level[which]
    aggressive = stocks.aggressive[which] == 1
    taken = pa.array(which)
    columns = {
        "ts": stamps(ts),
        "symbol": stocks.symbol.take(taken),
        "company": stocks.company.take(taken),
        **dict(zip(("sector", "subsector"), business(stocks.subsector[which]), strict=True)),
        "price": pa.array(np.round(stocks.price[which] * np.exp(_walks(which, random)), 2)),
        "owned_by_company": pa.array((level == 1) | (level == 2)),
        "aggressive": pa.array(aggressive),
        "conservative": pa.array(~aggressive),
        "under_evaluation": pa.array(level == 3),
    }
    return pa.RecordBatch.from_pydict(columns)


def _walks(which: Ints, random: np.random.Generator) -> Floats:
    """How far each stock's walk has come at each of its ticks: running sums, all stocks laid end to end."""
    order = np.argsort(which, kind="stable")
    paces = random.normal(0.0, RETURN, len(which))
    summed = np.cumsum(paces)
    first = np.searchsorted(which[order], which[order])
    walked = np.empty(len(which))
    walked[order] = summed - summed[first]
    return walked


def significant(stocks: Stocks, level: int | None = None) -> Ints:
    """Subsectors that have a stock at this level, or at any."""
    chosen = stocks.level > 0 if level is None else stocks.level == level
    found: Ints = np.unique(stocks.subsector[chosen])
    return found


def _drawn(
    count: int, stocks: Stocks, promising: float | None, hot: Ints, random: np.random.Generator
) -> Ints:
    """Subsectors of posts; of those that matter, `hot` are posted about."""
    if promising is None:
        return random.integers(0, SUBSECTORS, count)
    cold = np.setdiff1d(np.arange(SUBSECTORS), significant(stocks))
    chosen = rounds(count, _HUNDRED, random) < round(promising * _HUNDRED)
    drawn = random.choice(cold, count)
    drawn[chosen] = hot[rounds(int(chosen.sum()), len(hot), random)]
    return drawn


def _spaced(seconds: float, alone: float, random: np.random.Generator) -> tuple[Ints, Ints]:
    """Posts by sector, `alone` seconds and then a while apart: at most one of a sector is alive in a window of that length."""
    many = int(seconds / alone) + 2
    pauses = random.exponential(alone / 4, (len(SECTORS), many))
    pauses[:, 1:] += alone
    at = (np.cumsum(pauses, axis=1) * MICROSECONDS).astype(np.int64)
    sector = np.broadcast_to(np.arange(len(SECTORS))[:, None], at.shape)[at < seconds * MICROSECONDS]
    at = at[at < seconds * MICROSECONDS]
    order = np.argsort(at, kind="stable")
    return at[order], sector[order]
