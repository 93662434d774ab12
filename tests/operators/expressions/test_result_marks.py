"""CASE of whole numbers over results of a join says the same by marks as by its tests one after the other."""

from __future__ import annotations

import random

import numpy as np
import pytest

from penstock.kernels.join import result_marks as kernels
from penstock.operators.expressions import result_marks
from penstock.operators.expressions.evaluator import Evaluator
from penstock.plan.expressions import Call, Expression, Literal
from penstock.plan.expressions import Column as ColumnName
from penstock.state.strings import Strings
from penstock.types import sizes
from penstock.types.batch import Column
from penstock.types.data_type import Type

TYPES = (Type.BOOLEAN, Type.BOOLEAN, Type.DOUBLE, Type.INT, Type.BOOLEAN, Type.DOUBLE)
"""Of one input the first four, of another the others."""
OWN = 4
NAMES = [ColumnName(k, kind, f"c{k}") for k, kind in enumerate(TYPES)]


def stored(draw: np.random.Generator, kind: Type, size: int) -> Column:
    values = {
        Type.BOOLEAN: draw.random(size) < 0.4,
        Type.DOUBLE: draw.choice([0.0, 1.0, 2.0, np.nan, np.inf, 1e308], size),
        Type.INT: draw.integers(-2, 3, size).astype(np.int32),
    }[kind]
    return Column(values, draw.random(size) < 0.8 if draw.random() < 0.4 else None)


def conjunct(rng: random.Random, columns: list[ColumnName]) -> Expression:
    one = rng.choice(columns)
    if one.type is Type.BOOLEAN:
        return one if rng.random() < 0.7 else Call("not", (one,), Type.BOOLEAN)
    other: Expression = Literal(1.0 if one.type is Type.DOUBLE else 1, one.type)
    if rng.random() < 0.3:
        other = rng.choice([c for c in NAMES if c.type is one.type])
    if one.type is Type.DOUBLE and rng.random() < 0.5:
        one = Call("*", (one, one), Type.DOUBLE)  # type: ignore[assignment]
    return Call(rng.choice((">", "<=", "=")), (one, other), Type.BOOLEAN)


def condition(rng: random.Random) -> Expression:
    """Something about the first input alone, and mostly more."""
    parts = [conjunct(rng, NAMES[:OWN])] + [conjunct(rng, NAMES) for _ in range(rng.randrange(3))]
    rng.shuffle(parts)
    return parts[0] if len(parts) == 1 else Call("and", tuple(parts), Type.BOOLEAN)


def case(rng: random.Random) -> Call:
    arguments: list[Expression] = []
    for _ in range(rng.randint(1, 4)):
        arguments += [condition(rng), Literal(rng.randint(1, 9), Type.INT)]
    arguments.append(Literal(None if rng.random() < 0.6 else 0, Type.INT))
    return Call("case", tuple(arguments), Type.INT)


def test_marks_say_what_tests_say(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []

    def counted(*given: object) -> int:
        runs.append(1)
        return int(kernels.first_marked(*given))

    monkeypatch.setattr(result_marks, "first_marked", counted)
    evaluator = Evaluator(Strings(), {})
    for seed in range(150):
        rng, draw = random.Random(seed), np.random.default_rng(seed)
        sizes = [rng.choice((1, 7, 40)), rng.choice((1, 7, 40))]
        rows = rng.choice((1, 3, 300))
        at = [draw.integers(0, size, rows).astype(np.int32) for size in sizes]
        held = [stored(draw, kind, sizes[k >= OWN]) for k, kind in enumerate(TYPES)]
        lazy = [Column.over(one, at[k >= OWN]) for k, one in enumerate(held)]
        plain = [
            Column(one.values[at[k >= OWN]], None if one.valid is None else one.valid[at[k >= OWN]])
            for k, one in enumerate(held)
        ]
        expression = case(rng)
        run = evaluator.compile(expression)
        by_marks, by_tests = run(lazy, rows), run(plain, rows)
        known = np.ones(rows, np.bool_) if by_tests.valid is None else by_tests.valid
        told = np.ones(rows, np.bool_) if by_marks.valid is None else by_marks.valid
        assert told.tolist() == known.tolist(), f"seed {seed}: {expression}"
        assert by_marks.values[known].tolist() == by_tests.values[known].tolist(), (
            f"seed {seed}: {expression}"
        )
    assert len(runs) > 50, "marks were hardly ever used"


@pytest.mark.parametrize("slots", [10_000, 100])
def test_where_slots_outnumber_results_they_are_left_alone(slots: int) -> None:
    evaluator = Evaluator(Strings(), {})
    run = evaluator.compile(Call("case", (NAMES[0], Literal(1, Type.INT), Literal(None, Type.INT)), Type.INT))
    base = Column(np.arange(slots) % 3 == 0)
    column = Column.over(base, np.arange(50, dtype=np.int32))
    made = run([column], 50)
    assert (column.held is None) == (slots > sizes.current.marked_slots), (
        "gathered, or read where it is stored"
    )
    assert made.valid is not None
    assert np.flatnonzero(made.valid).tolist() == list(range(0, 50, 3))
