"""Calls of registered Python functions: the only place where a query runs code of the user's.

A scalar function is called per row, because that was asked for; a vectorised one gets Arrow arrays and gives one
back. NULLs arrive as None. What it raises, and what it returns of a wrong type, is a `DataError`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.data.batch import Column
from penstock.data.types import Type
from penstock.errors import DataError
from penstock.operators.expressions.parts import Pair, Part, Run, spread
from penstock.plan.catalog import Function
from penstock.state.arrow import Misfit, from_arrow, from_python, to_arrow
from penstock.state.strings import Strings


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
        column = call(function, arrays, rows, strings)
        return column.values, column.valid

    return run


def _scalar(function: Function, arrays: list[pa.Array], rows: int, strings: Strings) -> Column:
    body = function.body
    # One zip for all rows; a function of no arguments is called as often as there are rows.
    arguments = list(zip(*(_plain(a) for a in arrays), strict=True)) if arrays else [()] * rows
    results: list[object] = []
    try:
        for row in arguments:
            results.append(body(*row))
    except Exception as error:  # the user's code may raise anything
        given = arguments[len(results)]
        raise DataError(
            f"function {function.name} failed on {_shown(given)}: {type(error).__name__}: {error}"
        ) from error
    try:
        return from_python(results, function.returns, strings)
    except Misfit as misfit:
        raise _wrong(function, misfit, arguments[misfit.row] if misfit.row is not None else None) from None


def _plain(array: pa.Array) -> list[object]:
    values: list[object] = array.to_pylist()
    return values


def _vectorized(function: Function, arrays: list[pa.Array], rows: int, strings: Strings) -> Column:
    try:
        result = function.body(*arrays)
    except Exception as error:  # the user's code may raise anything
        raise DataError(
            f"function {function.name} failed on a batch of {rows} rows that begins with "
            f"{_shown(tuple(a[0].as_py() for a in arrays))}: {type(error).__name__}: {error}"
        ) from error
    try:
        array = _array(result)
        if len(array) != rows:
            raise Misfit(f"it returned {len(array)} values for {rows} rows")
        return from_arrow(array, function.returns, strings)
    except Misfit as misfit:
        row = misfit.row
        given = None if row is None else tuple(a[row].as_py() for a in arrays)
        raise _wrong(function, misfit, given) from None


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


def _wrong(function: Function, misfit: Misfit, given: tuple[object, ...] | None) -> DataError:
    place = "" if given is None else f" on {_shown(given)}"
    return DataError(
        f"function {function.name} returns {function.returns}, but{place}: {misfit.why}",
        hint=f"return {_WANTED.get(function.returns, 'a value of that type')} or None",
    )


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
