"""Routing, value by value: what SQL groups as equal goes together, whatever the process, batch or type."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pytest

from penstock.partitioning.placement import Axis, Routing
from penstock.partitioning.router import Router, hash_texts
from penstock.plan.catalog import Function
from penstock.plan.expressions import Call, Expression
from penstock.plan.expressions import Column as Name
from penstock.plan.function_signatures import cast
from penstock.state.arrow_columns import from_arrow
from penstock.state.strings import Strings
from penstock.types.batch import Column
from penstock.types.data_type import Type

NAN = float("nan")


def cells_of(
    values: Sequence[object],
    type_: Type,
    key: Expression | None = None,
    share: int = 1 << 12,
    first: str = "",
) -> list[int]:
    """The cell of each value, in a process of its own that has met the string `first` before."""
    strings = Strings()
    strings.code(first)
    column = from_arrow(pa.array(values, type_.arrow), type_, strings)
    terms = (Name(0, type_, "v") if key is None else key,)
    router = Router(Routing((Axis(share, terms),)), strings, {})
    found = [-1] * len(values)
    for cell, rows in router.route([column], len(values)):
        for row in rows.tolist():
            found[row] = cell
    return found


@pytest.mark.parametrize(
    ("type_", "equal"),
    [
        (Type.INT, [None, None]),
        (Type.BIGINT, [None, None]),
        (Type.STRING, [None, None]),
        (Type.DOUBLE, [None, None]),
        (Type.DOUBLE, [0.0, -0.0]),
        (Type.FLOAT, [0.0, -0.0]),
        (Type.DOUBLE, [NAN, -NAN, math.inf - math.inf]),
    ],
)
def test_equal_values_go_together(type_: Type, equal: list[object]) -> None:
    assert len(set(cells_of(equal, type_))) == 1


@pytest.mark.parametrize(
    ("type_", "different"),
    [
        (Type.INT, [None, 0, 1, -1, 2**31 - 1, -(2**31)]),
        (Type.BIGINT, [None, 0, 1, -1, 2**63 - 1, -(2**63)]),
        (Type.DOUBLE, [None, 0.0, 1.0, -1.0, NAN, math.inf]),
        (Type.STRING, [None, "", "a", "b", "aa", "\0", "é"]),
        (Type.BOOLEAN, [None, False, True]),
    ],
)
def test_different_values_are_told_apart(type_: Type, different: list[object]) -> None:
    assert len(set(cells_of(different, type_))) == len(different)


@pytest.mark.parametrize("type_", [Type.TINYINT, Type.SMALLINT, Type.INT, Type.BIGINT])
def test_numbers_cast_to_one_type_go_together(type_: Type) -> None:
    values = [None, 0, 5, -5]
    for target in (Type.BIGINT, Type.DOUBLE):
        assert cells_of(values, type_, cast(Name(0, type_, "v"), target)) == cells_of(values, target)


def test_strings_go_by_their_content() -> None:
    texts = ["", "a", "b", None, "a longer one", "a", "ö"]
    assert cells_of(texts, Type.STRING) == cells_of(texts, Type.STRING, first="b")
    assert cells_of(texts[::-1], Type.STRING) == cells_of(texts, Type.STRING)[::-1]


def test_texts_are_hashed_whole() -> None:
    texts = pa.array(["ab", "ba", "abc", "", "a", "b", "ab"])
    assert len(set(hash_texts(texts).tolist())) == 6
    assert hash_texts(texts.slice(2, 3)).tolist() == hash_texts(texts).tolist()[2:5]


def numbers(n: int) -> Column:
    return from_arrow(pa.array(range(n), pa.int64()), Type.BIGINT, Strings())


V = Name(0, Type.BIGINT, "v")


def test_a_row_goes_to_every_copy_of_its_cell_and_rows_keep_their_order() -> None:
    routing = Routing((Axis(3, (V,)), Axis(2, None), Axis(2, (V,)), Axis(2, None)), origin=10)
    router = Router(routing, Strings(), {})
    sent = list(router.route([numbers(500)], 500))
    assert Counter(r for _, rows in sent for r in rows.tolist()) == dict.fromkeys(range(500), 4)
    assert {cell for cell, _ in sent} == set(routing.cells) == set(range(10, 34))
    assert all(rows.tolist() == sorted(rows.tolist()) for _, rows in sent)
    counted = Counter(r for cell, rows in sent for r in rows.tolist() if routing.is_first_copy(cell))
    assert counted == dict.fromkeys(range(500), 1)


def test_without_axes_all_rows_go_to_one_cell() -> None:
    assert [(c, len(r)) for c, r in Router(Routing((), 5), Strings(), {}).route([numbers(9)], 9)] == [(5, 9)]
    assert list(Router(Routing((), 5), Strings(), {}).route([numbers(0)], 0)) == []


def test_axes_by_the_same_key_are_independent() -> None:
    routing = Routing((Axis(4, (V,)), Axis(4, (V,))))
    sent = {cell: len(rows) for cell, rows in Router(routing, Strings(), {}).route([numbers(1600)], 1600)}
    assert len(sent) == 16
    assert max(sent.values()) < 150


def test_rows_on_which_a_python_function_fails_go_where_null_goes() -> None:
    """The query may have left them out by the time it calls the function; if not, it fails in that cell."""

    def half(v: int | None) -> int | None:
        if v is not None and v % 2:
            raise ValueError("odd")
        return None if v is None else v // 2

    strings = Strings()
    column = from_arrow(pa.array([4, 3, None, 4], pa.int64()), Type.BIGINT, strings)
    key = Call("udf:half", (V,), Type.BIGINT)
    router = Router(Routing((Axis(1 << 12, (key,)),)), strings, {"half": Function("half", half, Type.BIGINT)})
    assert sorted(rows.tolist() for _, rows in router.route([column], 4)) == [[0, 3], [1, 2]]
