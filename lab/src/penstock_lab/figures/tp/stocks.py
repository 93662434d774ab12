"""Five hundred stocks in ten sectors, and which of them matter (the dissertation's §5.5.1).

Stocks     Those of the S&P 500 in the GICS sectors of 2012, as many in each as there were. A stock has one of its sector's
           subsectors, at random. (In truth subsectors are of another scheme, ICB, and cross sectors; here they lie within.)
Prices     A sector has a price level, and its stocks' prices lie about it normally. Cochran's formula is meant for such a
           population: with prices that are log-normal over all stocks, a mean within 5 % would take a sample larger than
           what a window holds of a sector.
Levels     1 owned and aggressive, 2 owned and conservative, 3 under evaluation. Every stock is aggressive or conservative; what
           the company does not own has no level by that.
Data sets  DS1: so many stocks at each level, drawn from all sectors. DS25, DS50, DS75, DS100: that share of the stocks of
           two sectors, the levels evenly among them, and none elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock_lab.figures.tp.load import Floats, Ints

SECTORS = {
    "Consumer Discretionary": 80,
    "Consumer Staples": 42,
    "Energy": 44,
    "Financials": 81,
    "Health Care": 52,
    "Industrials": 61,
    "Information Technology": 71,
    "Materials": 30,
    "Telecommunication Services": 8,
    "Utilities": 31,
}
STOCKS = sum(SECTORS.values())
SUBSECTORS = 114
LEVELS = 3
TWO = ("Financials", "Information Technology")
"""The sectors of DS25 … DS100; the dissertation does not name its two. Of these any share has stocks at every level."""
SPREAD = 0.25
"""Deviation of prices within a sector, relative to its level."""


@dataclass(frozen=True, slots=True)
class Stocks:
    """One entry a stock; `sector` and `subsector` are numbers, `level` is 0 for none."""

    symbol: pa.Array
    company: pa.Array
    sector: Ints
    subsector: Ints
    level: Ints
    aggressive: Ints
    price: Floats


def listed(data_set: str, each: int, random: np.random.Generator) -> Stocks:
    """The stocks of a data set."""
    sector = np.repeat(np.arange(len(SECTORS)), list(SECTORS.values()))
    # Every stock's subsector is one of its sector's: those whose number leaves the sector's when divided by ten.
    kinds = -(-(SUBSECTORS - sector) // len(SECTORS))
    subsector = random.integers(0, kinds) * len(SECTORS) + sector
    base = np.exp(random.normal(np.log(50.0), 0.3, len(SECTORS)))[sector]
    price = base * (1 + SPREAD * np.clip(random.normal(size=STOCKS), -3, 3))
    level = _levels(data_set, each, sector, random)
    aggressive = np.where((level == 1) | (level == 2), level == 1, random.random(STOCKS) < 0.5)
    names = list(SECTORS)
    return Stocks(
        symbol=pa.array([_symbol(i) for i in range(STOCKS)]),
        company=pa.array([f"{names[s]} {i + 1}" for i, s in enumerate(sector.tolist())]),
        sector=sector,
        subsector=subsector,
        level=level,
        aggressive=aggressive.astype(np.int64),
        price=price,
    )


def _symbol(number: int) -> str:
    """Three letters, a different three for each number below 26³."""
    return "".join(chr(65 + number * 37 // 26**place % 26) for place in (2, 1, 0))


def _levels(data_set: str, each: int, sector: Ints, random: np.random.Generator) -> Ints:
    level = np.zeros(STOCKS, dtype=np.int64)
    if data_set == "DS1":
        chosen = random.permutation(STOCKS)[: LEVELS * each]
    elif data_set in ("DS25", "DS50", "DS75", "DS100"):
        share = int(data_set.removeprefix("DS")) / 100
        numbers = [list(SECTORS).index(name) for name in TWO]
        members = [random.permutation(np.flatnonzero(sector == number)) for number in numbers]
        chosen = np.concatenate([found[: round(share * len(found))] for found in members])
    else:
        raise ValueError(f"{data_set}: a data set is DS1, DS25, DS50, DS75 or DS100")
    level[chosen] = np.arange(len(chosen)) % LEVELS + 1
    return level


def business(subsector: Ints) -> tuple[pa.Array, pa.Array]:
    """Sector and subsector by name."""
    names = list(SECTORS)
    kinds = pa.array([f"{names[i % len(names)]} / {i // len(names) + 1}" for i in range(SUBSECTORS)])
    return pa.array(names).take(pa.array(subsector % len(names))), kinds.take(pa.array(subsector))
