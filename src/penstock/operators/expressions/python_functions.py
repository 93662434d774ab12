"""Calls of registered Python functions: the only place where a query runs code of the user's.

A scalar function is called per row, because that was asked for; a vectorised one gets Arrow arrays and gives one
back. NULLs arrive as None. What it raises, and what it returns of a wrong type, is a `DataError` that names the
row; a vectorised function that raises is called again on ever fewer rows to find it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.operators.expressions.compiled import Pair, Part, RowError, Run, spread
from penstock.plan.catalog import Function
from penstock.state.arrow_columns import Misfit, from_arrow, from_python, to_arrow
from penstock.state.strings import Strings
from penstock.types.batch import Column
from penstock.types.data_type import Type


def python_call(function: Function, parts: Sequence[Part], strings: Strings) -> Run:
    runs = [part.run for part in parts]
    types = [part.type for part in parts]
    call = _vectorized if function.vectorized else _scalar

    def run(columns: Sequence[Column], rows: int) -> Pair:
        if rows == 0:
            return np.zeros(0, function.returns.dtype), None
        arrays = []
        for one, kind in zip(runs, types, strict=True):
            values, valid = one(columns, rows)
            mask = None if valid is None else spread(valid, rows)
            arrays.append(to_arrow(Column(spread(values, rows), mask), kind, strings))
        column = call(function, arrays, columns, rows, strings)
        return column.values, column.valid

    return run


def _scalar(
    function: Function, arrays: list[pa.Array], columns: Sequence[Column], rows: int, strings: Strings
) -> Column:
    body = function.body
    # One zip for all rows; a function of no arguments is called as often as there are rows.
    arguments = list(zip(*(_plain(a) for a in arrays), strict=True)) if arrays else [()] * rows
    results: list[object] = []
    try:
        for given in arguments:
            results.append(body(*given))
    except Exception as error:  # the user's code may raise anything
        row = len(results)
        what = f"function {function.name} failed on {_shown(arguments[row])}: {type(error).__name__}: {error}"
        raise RowError(what, columns, row, rows) from error
    try:
        return from_python(results, function.returns, strings)
    except Misfit as misfit:
        wrong = _wrong(function, misfit, None if misfit.row is None else arguments[misfit.row])
        raise RowError(wrong, columns, misfit.row, rows, hint=_right(function)) from None


def _plain(array: pa.Array) -> list[object]:
    values: list[object] = array.to_pylist()
    return values


def _vectorized(
    function: Function, arrays: list[pa.Array], columns: Sequence[Column], rows: int, strings: Strings
) -> Column:
    try:
        result = function.body(*arrays)
    except Exception as error:  # the user's code may raise anything
        row = _narrowed(function, arrays, rows)
        also = f", and on {_shown(_given(arrays, row))} alone" if row is not None and rows > 1 else ""
        what = (
            f"function {function.name} failed on a batch of {rows} rows that begins with "
            f"{_shown(_given(arrays, 0))}{also}: {type(error).__name__}: {error}"
        )
        raise RowError(what, columns, row, rows) from error
    try:
        array = _array(result)
        if len(array) != rows:
            raise Misfit(f"it returned {len(array)} values for {rows} rows")
        return from_arrow(array, function.returns, strings)
    except Misfit as misfit:
        wrong = _wrong(function, misfit, None if misfit.row is None else _given(arrays, misfit.row))
        raise RowError(wrong, columns, misfit.row, rows, hint=_right(function)) from None


def _narrowed(function: Function, arrays: list[pa.Array], rows: int) -> int | None:
    """A row that the function fails on alone, found by halving."""
    begin, end = 0, rows
    while end - begin > 1:
        middle = (begin + end) // 2
        for start, stop in ((begin, middle), (middle, end)):
            try:
                function.body(*(a.slice(start, stop - start) for a in arrays))
            except Exception:  # noqa: BLE001 - what is looked for
                begin, end = start, stop
                break
        else:
            return None
    return begin


def _given(arrays: list[pa.Array], row: int) -> tuple[object, ...]:
    return tuple(a[row].as_py() for a in arrays)


def _array(result: object) -> pa.Array:
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    if isinstance(result, pa.Array):
        return result
    if isinstance(result, np.ndarray) and result.ndim == 1:
        try:
            return pa.array(result)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise Misfit(str(error)) from None
    raise Misfit(f"it returned a {type(result).__name__}, not an Arrow or NumPy array")


def _wrong(function: Function, misfit: Misfit, given: tuple[object, ...] | None) -> str:
    place = "" if given is None else f" on {_shown(given)}"
    return f"function {function.name} returns {function.returns}, but{place}: {misfit.why}"


def _right(function: Function) -> str:
    return f"return {_WANTED.get(function.returns, 'a value of that type')} or None"


def _shown(values: tuple[object, ...]) -> str:
    text = ", ".join(repr(v) for v in values)
    return f"({text if len(text) <= 200 else text[:197] + '...'})"


_WANTED = {
    Type.BOOLEAN: "a bool",
    Type.DOUBLE: "a float",
    Type.FLOAT: "a float",
    Type.STRING: "a str",
    Type.TIMESTAMP: "a datetime",
    Type.DATE: "a date",
    Type.INTERVAL: "a timedelta",
    **dict.fromkeys((Type.TINYINT, Type.SMALLINT, Type.INT, Type.BIGINT), "an int"),
}
