"""Three-valued logic, drawn out; NULL, NaN and zero; guards around Python functions."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import DataError
from penstock.operators.expressions.evaluator import Evaluator
from penstock.plan.catalog import Function
from penstock.plan.expressions import Call, Column, Expression, Literal, Value
from penstock.plan.function_signatures import call, cast
from penstock.state.arrow_columns import from_python, to_arrow
from penstock.state.strings import Strings
from penstock.types.batch import Column as Values
from penstock.types.data_type import Type

B, L, D, S = Type.BOOLEAN, Type.BIGINT, Type.DOUBLE, Type.STRING
T, F, N = True, False, None


def run(
    expression: Expression,
    *columns: tuple[Type, list[object]],
    strings: Strings | None = None,
    **functions: Function,
) -> list[object]:
    pool = strings or Strings()
    values = [from_python(given, kind, pool) for kind, given in columns]
    rows = len(columns[0][1]) if columns else 1
    column = Evaluator(pool, functions).compile(expression)(values, rows)
    return list(to_arrow(column, expression.type, pool).to_pylist())


def col(index: int, kind: Type) -> Column:
    return Column(index, kind, f"c{index}")


def lit(value: Value, kind: Type) -> Literal:
    return Literal(value, kind)


LEFT = [T, T, T, F, F, F, N, N, N]
RIGHT = [T, F, N, T, F, N, T, F, N]
TRUTH: dict[str, list[bool | None]] = {
    "and":             [T, F, N, F, F, F, N, F, N],
    "or":              [T, T, T, T, F, N, T, N, N],
    "=":               [T, F, N, F, T, N, N, N, N],
    "<>":              [F, T, N, T, F, N, N, N, N],
    "<":               [F, F, N, T, F, N, N, N, N],
    "is_distinct":     [F, T, T, T, F, T, T, T, F],
    "is_not_distinct": [T, F, F, F, T, F, F, F, T],
    "coalesce":        [T, T, T, F, F, F, T, F, N],
    "greatest":        [T, T, T, T, F, F, T, F, N],
    "least":           [T, F, T, F, F, F, T, F, N],
    "nullif":          [N, T, T, F, N, F, N, N, N],
}  # fmt: skip


@pytest.mark.parametrize("name", TRUTH)
def test_truth_tables(name: str) -> None:
    both: tuple[tuple[Type, list[object]], ...] = ((B, list(LEFT)), (B, list(RIGHT)))
    assert run(call(name, col(0, B), col(1, B)), *both) == TRUTH[name]
    # The same with each side a literal, and folded.
    for k, (left, right) in enumerate(zip(LEFT, RIGHT, strict=True)):
        row: tuple[tuple[Type, list[object]], ...] = ((B, [left]), (B, [right]))
        expected = [TRUTH[name][k]]
        assert run(call(name, lit(left, B), col(1, B)), *row) == expected
        assert run(call(name, col(0, B), lit(right, B)), *row) == expected
        assert run(call(name, lit(left, B), lit(right, B))) == expected


UNARY: dict[str, list[bool | None]] = {
    "not":          [F, T, N],
    "is_null":      [F, F, T],
    "is_not_null":  [T, T, F],
    "is_true":      [T, F, F],
    "is_not_true":  [F, T, T],
    "is_false":     [F, T, F],
    "is_not_false": [T, F, T],
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary_truth_tables(name: str) -> None:
    assert run(call(name, col(0, B)), (B, [T, F, N])) == UNARY[name]


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("name", ["and", "or"])
def test_predicates_keep_true_rows_only(name: str, negated: bool) -> None:
    strings = Strings()
    expression = call(name, col(0, B), col(1, B))
    if negated:
        expression = call("not", expression)
    values = [from_python(list(side), B, strings) for side in (LEFT, RIGHT)]
    mask = Evaluator(strings, {}).predicate(expression)(values, 9)
    wanted = not negated
    assert mask.tolist() == [answer is wanted for answer in TRUTH[name]]


def test_in_with_null() -> None:
    #   x   1  5  NULL
    x: tuple[Type, list[object]] = (L, [1, 5, N])
    one, null = lit(1, L), lit(None, Type.NULL)
    assert run(call("in", col(0, L), one), x) == [T, F, N]
    assert run(call("in", col(0, L), one, null), x) == [T, N, N]
    assert run(call("in", col(0, L), null), x) == [N, N, N]
    many = [lit(i, L) for i in (9, 1, 7, 3, 2, 1)]
    assert run(call("in", col(0, L), *many), x) == [T, F, N]


def test_nan_equals_itself_and_is_greatest() -> None:
    a: tuple[Type, list[object]] = (D, [math.nan, math.nan, math.inf, -0.0])
    b: tuple[Type, list[object]] = (D, [math.nan, math.inf, math.nan, 0.0])
    expected = {
        "=": [T, F, F, T], "<>": [F, T, T, F], "<": [F, F, T, F],
        "<=": [T, F, T, T], ">": [F, T, F, F], ">=": [T, T, F, T],
    }  # fmt: skip
    for name, answer in expected.items():
        assert run(call(name, col(0, D), col(1, D)), a, b) == answer
        for row in range(4):
            value = b[1][row]
            assert isinstance(value, float)
            assert run(call(name, col(0, D), lit(value, D)), (D, [a[1][row]])) == [answer[row]]


def test_overflow_and_division_by_zero_are_null() -> None:
    big, low = 2**63 - 1, -(2**63)
    a: tuple[Type, list[object]] = (L, [big, low, low, 3_037_000_500, 0, low])
    b: tuple[Type, list[object]] = (L, [1, -1, 2, 3_037_000_500, 0, 0])
    x, y = col(0, L), col(1, L)
    assert run(call("+", x, y), a, b) == [N, N, low + 2, 6_074_001_000, 0, low]
    assert run(call("-", x, y), a, b) == [big - 1, low + 1, N, 0, 0, low]
    assert run(call("*", x, y), a, b) == [big, N, N, N, 0, 0]
    assert run(call("%", x, y), a, b) == [0, 0, 0, 0, N, N]
    assert run(call("/", x, y), a, b)[4:] == [N, N]
    assert run(call("neg", x), a) == [-big, N, N, -3_037_000_500, 0, N]


def test_int_columns_never_overflow() -> None:
    top: tuple[Type, list[object]] = (Type.INT, [2**31 - 1, -(2**31)])
    x = Column(0, Type.INT, "x")
    assert run(call("*", x, x), top) == [(2**31 - 1) ** 2, 2**62]
    assert run(call("*", call("*", x, x), x), top) == [N, N]


CASTS: list[tuple[object, Type, Type, object]] = [
    (2.7, D, L, 2), (-2.7, D, L, -2), (math.nan, D, L, N), (1e30, D, L, N), (2.0**63, D, L, N),
    (300, L, Type.TINYINT, N), (5, L, B, T), (0, L, B, F), (T, B, L, 1),
    (1e300, D, Type.FLOAT, N), (math.inf, D, Type.FLOAT, math.inf),
    ("12", S, L, 12), (" -3.9 ", S, L, -3), ("1e3", S, L, N), ("x", S, L, N), ("", S, L, N), ("9" * 500, S, L, N),
    ("1_0", S, D, N), ("1.5e3", S, D, 1500.0), ("-inf", S, D, -math.inf), ("٣", S, L, N),
    ("TRUE", S, B, T), ("no", S, B, F), ("maybe", S, B, N),
    (T, B, S, "true"), (1.0, D, S, "1.0"), (-0.0, D, S, "-0.0"), (1e20, D, S, "1e+20"), (7, L, S, "7"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "source", "target", "expected"), CASTS)
def test_casts(value: object, source: Type, target: Type, expected: object) -> None:
    assert run(cast(col(0, source), target), (source, [value, None])) == [expected, None]


def udf(name: str, body: object, returns: Type, vectorized: bool = False) -> Function:
    assert callable(body)
    return Function(name, body, returns, vectorized)


def test_scalar_function_gets_none_for_null() -> None:
    f = udf("f", lambda x, s: None if x is None else f"{x}{s}", S)
    expression = Call("udf:f", (col(0, L), lit("!", S)), S)
    assert run(expression, (L, [1, None, 3]), f=f) == ["1!", None, "3!"]


def test_vectorized_function_takes_arrow() -> None:
    f = udf("f", lambda a: pa.compute.add(a, 1), L, vectorized=True)
    g = udf("g", lambda a: a.to_numpy(zero_copy_only=False) * 2, D, vectorized=True)
    assert run(Call("udf:f", (col(0, L),), L), (L, [1, None]), f=f) == [2, None]
    assert run(Call("udf:g", (col(0, D),), D), (D, [1.5]), g=g) == [3.0]


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (
            udf("f", lambda x: 1 // x, L),
            r"function f failed on \(0\): ZeroDivisionError: .* \(row 1 in a batch of 2\)",
        ),
        (
            udf("f", lambda x: "a", L),
            r"function f returns BIGINT, but on \(2\): 'a' \(str\) .* \(row 0 in a batch of 2\)",
        ),
        (
            udf("f", lambda x: 0.5, L),
            r"0.5 \(float\) does not fit BIGINT \(row 0 in .*\); return an int or None",
        ),
        (
            udf("f", lambda a: 1 / 0, L, True),
            r"function f failed on a batch of 2 rows that begins with \(2\), and on \(2\) alone: Zero.* \(row 0 in",
        ),
        (
            udf("f", lambda a: pa.array([1 // x for x in a.to_pylist()]), L, True),
            r"a batch of 2 rows that begins with \(2\), and on \(0\) alone: Zero.* \(row 1 in a batch of 2\)",
        ),
        (
            udf("f", lambda a: a if len(a) == 1 else 1 / 0, L, True),
            r"a batch of 2 rows that begins with \(2\): ZeroDivisionError: .* \(a batch of 2 rows\)",
        ),
        (udf("f", lambda a: a.slice(1), L, True), r"it returned 1 values for 2 rows \(a batch of 2 rows\)"),
        (udf("f", lambda a: 5, L, True), r"it returned a int, not an Arrow or NumPy array"),
        (udf("f", lambda a: a.cast(pa.string()), L, True), r"Arrow type string does not fit BIGINT"),
    ],
)
def test_failing_functions_name_the_row(f: Function, message: str) -> None:
    with pytest.raises(DataError, match=message):
        run(Call("udf:f", (col(0, L),), f.returns), (L, [2, 0]), f=f)


def test_guards_keep_rows_from_python_functions() -> None:
    f = udf("f", lambda x: 10 // x, L)
    inner = Call("udf:f", (col(0, L),), L)
    x: tuple[Type, list[object]] = (L, [2, 0, 5, None])
    nonzero = call("<>", call("coalesce", col(0, L), lit(0, L)), lit(0, L))
    assert run(call("case", nonzero, inner, lit(-1, L)), x, f=f) == [5, -1, 2, -1]
    test = call(">", inner, lit(2, L))
    assert run(call("and", nonzero, test), x, f=f) == [T, F, F, F]
    assert run(call("or", call("not", nonzero), test), x, f=f) == [T, T, F, T]
    pool = Strings()
    values = [from_python(x[1], L, pool)]
    mask = Evaluator(pool, {"f": f}).predicate(call("and", nonzero, test))(values, 4)
    assert mask.tolist() == [T, F, F, F]


def test_a_guarded_function_names_the_row_of_the_whole_batch() -> None:
    f = udf("f", lambda x: 10 // x, L)
    inner = Call("udf:f", (col(0, L),), L)
    x: tuple[Type, list[object]] = (L, [5, None, 7, 0])
    here = r"function f failed on \(0\): ZeroDivisionError: .* \(row 3 in a batch of 4\)"
    odd = call("is_not_null", col(0, L))
    for guarded in (
        call("case", odd, inner, lit(-1, L)),
        call("case", odd, call("case", call("<", col(0, L), lit(6, L)), inner, lit(0, L)), lit(-1, L)),
        call("and", odd, call(">", inner, lit(0, L))),
    ):
        with pytest.raises(DataError, match=here):
            run(guarded, x, f=f)
    predicate = Evaluator(Strings(), {"f": f}).predicate(call("and", odd, call(">", inner, lit(0, L))))
    with pytest.raises(DataError, match=here):
        predicate([from_python(x[1], L, Strings())], 4)


def test_remembered_strings_are_forgotten_when_swept() -> None:
    pool = Strings()
    upper = Evaluator(pool, {}).compile(call("upper", col(0, S)))
    first = from_python(["one", "two", "three"], S, pool)
    upper([first], 3)
    pool.sweep(np.zeros(pool.capacity, np.bool_))
    second = from_python(["four", "five", "six"], S, pool)
    result = upper([second], 3)
    assert pool.decode(result.values).to_pylist() == ["FOUR", "FIVE", "SIX"]


def test_constants_are_of_the_batch_length() -> None:
    run_constant = Evaluator(Strings(), {}).compile(call("+", lit(1, L), lit(2, L)))
    for rows in (0, 1, 5):
        assert run_constant((), rows).values.tolist() == [3] * rows


def test_a_batch_cut_anywhere_gives_the_same_bits() -> None:
    """`np.power` takes short cuts for constant exponents on long arrays and rounds differently there."""
    values = np.random.default_rng(7).random(300) * 100
    evaluator = Evaluator(Strings(), {})
    for exponent in (2.0, 0.5, -1.0, 3.0):
        power = evaluator.compile(call("power", col(0, D), lit(exponent, D)))
        whole = power([Values(values)], 300).values
        single = [power([Values(values[i : i + 1])], 1).values[0] for i in range(300)]
        assert whole.tolist() == single
