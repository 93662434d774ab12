"""`penstock bench criteria`: the ranks of many queries asked of rows at once, against one after the other.

Each query has three ranks: a range of prices, some symbols, and a range of prices of one of the symbols. Rows come in blocks as large as a classifier
takes them, with some NULLs; both ways must find the same. By CPU seconds, in turn, medians.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from penstock.operators.expressions.evaluator import Evaluator
from penstock.overload.criteria import Assessment
from penstock.overload.scheduler import BLOCK
from penstock.plan.expressions import Call, Expression, Literal
from penstock.plan.expressions import Column as ColumnName
from penstock.state.strings import Strings
from penstock.types.batch import Column, Ints
from penstock.types.data_type import Type
from penstock_lab.benchmarks.points import Point
from penstock_lab.benchmarks.report import Tell

LIMITS = {10: 3.0, 100: 20.0, 1000: 50.0}
"""By queries: how many times the CPU time one after the other takes, at the least."""
SYMBOLS, PRICES, BLOCKS = 500, 1000, 5
PRICE, SYMBOL = ColumnName(0, Type.INT, "price"), ColumnName(1, Type.STRING, "symbol")
SEED = 2013


def bench(*, quick: bool, tell: Tell) -> dict[str, Any]:
    """The JSON object of the command line."""
    measured: dict[str, Any] = {}
    reference: dict[str, Any] = {}
    why: list[str] = []
    for queries, limit in LIMITS.items():
        if quick and queries > 100:
            continue
        case = f"{queries} queries"
        tell(case)
        together, single = compared(queries, 3 if quick else 15)
        point = Point("one after the other against at once", single / together, limit, "×", at_least=True)
        measured[case] = {"nanoseconds_a_row": round(together), "points": {point.name: point.json()}}
        reference[case] = {"one after the other, nanoseconds a row": round(single)}
        why += [] if point.holds else [f"{case}: {point.failure()}"]
    return {
        "name": "criteria",
        "claim": "overlapping criteria of many queries are asked at once: what that takes hardly grows with them",
        "measured": measured,
        "reference": reference,
        "holds": not why,
        "why_not": why,
    }


def compared(queries: int, repeat: int) -> tuple[float, float]:
    """Nanoseconds a row: at once, and one after the other."""
    drawn, rng = random.Random(SEED), np.random.default_rng(SEED)
    strings = Strings()
    evaluator = Evaluator(strings, {})
    ranks = sorted(
        ((level, one) for _ in range(queries) for level, one in enumerate(_ranks(drawn))), key=lambda r: r[0]
    )
    asked = Assessment([(0, n, one) for n, (_, one) in enumerate(ranks)], 1, evaluator)
    tests = [evaluator.predicate(one) for _, one in ranks]
    codes = np.array([strings.pin(f"S{n}") for n in range(SYMBOLS)], np.int32)
    blocks = []
    for _ in range(BLOCKS):
        price = Column(rng.integers(0, PRICES, BLOCK).astype(np.int32), rng.random(BLOCK) > 0.02)
        blocks.append((price, Column(codes[rng.integers(0, SYMBOLS, BLOCK)])))
    ts = np.arange(BLOCK)

    def together(columns: tuple[Column, ...]) -> Ints:
        found: Ints = asked.best(columns, ts, len(tests))[0]
        return found

    def single(columns: tuple[Column, ...]) -> Ints:
        best = np.full(BLOCK, len(tests))
        for n, test in enumerate(tests):
            open_ = np.flatnonzero(best > n)
            best[open_[test([c.take(open_) for c in columns], len(open_))]] = n
        return best

    for columns in blocks:
        assert np.array_equal(together(columns), single(columns))

    def taken(way: Callable[[tuple[Column, ...]], Ints]) -> float:
        began = time.process_time()
        for columns in blocks:
            way(columns)
        return 1e9 * (time.process_time() - began) / (BLOCKS * BLOCK)

    turns = [(taken(together), taken(single)) for _ in range(repeat)]
    first, second = (statistics.median(side) for side in zip(*turns, strict=True))
    asked.close()
    return first, second


def _ranks(drawn: random.Random) -> list[Expression]:
    low = drawn.randrange(PRICES)
    some = drawn.sample(range(SYMBOLS), 4)
    listed = Call("in", (SYMBOL, *(Literal(f"S{n}", Type.STRING) for n in some[:3])), Type.BOOLEAN)
    return [
        _between(low, 5),
        listed,
        _and(_between(low, 200), _compared("=", SYMBOL, Literal(f"S{some[3]}", Type.STRING))),
    ]


def _between(low: int, wide: int) -> Expression:
    ends = ((">=", low), ("<", low + wide))
    return _and(*(_compared(word, PRICE, Literal(end, Type.INT)) for word, end in ends))


def _compared(word: str, column: ColumnName, value: Literal) -> Expression:
    return Call(word, (column, value), Type.BOOLEAN)


def _and(one: Expression, other: Expression) -> Expression:
    return Call("and", (one, other), Type.BOOLEAN)
