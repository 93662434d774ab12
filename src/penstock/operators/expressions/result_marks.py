"""CASE of whole numbers, and so `__rank`, over results of a join: tests of single columns are made where rows are stored.

A join makes many results of a stored row, and a row of a table is met again and again. What tests ask of such a row alone is asked once for
every slot and kept as its *marks*, a bit a test; a result then reads a byte where its columns would have been gathered one by
one. What else a test asks is asked of the results whose marks let it come so far.

Invariant  the same as the tests one after the other. Where slots outnumber results, or columns are not of one input, it is these that run.
Cost       O(slots · tests) + one pass over the results, and the rest of a test for the results it may be true of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.kernels.join.result_marks import first_marked, write_some
from penstock.operators.expressions.compiled import Pair, Run
from penstock.types import sizes
from penstock.types.batch import Array, Column, Mask, Rows, gather
from penstock.types.memory import room

Test = Callable[[Sequence[Column], int], Mask]
MOST = 8
"""Tests: bits of a byte."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A test in parts: what it asks of single columns (`marks`), the columns, and the rest with those that it reads, if there is more."""

    marks: tuple[Test, ...]
    columns: tuple[int, ...]
    rest: Test | None
    read: tuple[int, ...]


def marked(tests: Sequence[Asked], values: Sequence[np.int32], last: int | None, otherwise: Run) -> Run:
    """The value of the first test that is TRUE, `last` if none is. `otherwise`: the same, whatever columns are."""
    read = sorted({k for test in tests for k in test.columns})
    tables = _Tables(tests, values, last)
    open_tests = [k for k in reversed(range(len(tests))) if tests[k].rest is not None]

    def run(columns: Sequence[Column], rows: int) -> Pair:
        held = _stored(columns, read, rows)
        if held is None:
            return otherwise(columns, rows)
        stored, at = held
        size = len(stored[read[0]])
        with np.errstate(all="ignore"):  # at slots that nobody holds anything may stand
            marks = _marks(tests, stored, size)
        made, known = room(rows, np.int32), room(rows, np.bool_)
        some = room(rows, np.int32)
        count = first_marked(marks, at, tables.value, tables.known, tables.open, made, known, some)
        if count:
            some = some[:count]
            of = marks[at[some]] if len(open_tests) > 1 else None
            for k in open_tests:
                own = some if of is None else some[tables.open_to[k][of]]
                if len(own):
                    write_some(own, _rest(tests[k], columns, own), values[k], made, known)
        return made, None if last is not None else known

    return run


class _Tables:
    """By marks: the value of the first test that these decide, whether there is one, whether another test could be true before it, and which."""

    def __init__(self, tests: Sequence[Asked], values: Sequence[np.int32], last: int | None) -> None:
        self.value = np.full(256, 0 if last is None else last, np.int32)
        self.known = np.zeros(256, np.bool_)
        self.open_to = np.zeros((len(tests), 256), np.bool_)
        for mark in range(256):
            for k, test in enumerate(tests):
                if not mark >> k & 1:
                    continue
                if test.rest is None:
                    self.value[mark], self.known[mark] = values[k], True
                    break
                self.open_to[k, mark] = True
        self.open = self.open_to.any(axis=0).astype(np.uint8)


def _stored(columns: Sequence[Column], read: Sequence[int], rows: int) -> tuple[list[Column], Rows] | None:
    """The columns as they are stored, if all are of the same slots and there are few, and the slots of the rows."""
    stored = list(columns)
    at: Rows | None = None
    for k in read:
        held = columns[k].held
        if held is None or (at is not None and held[1] is not at):
            return None
        stored[k], at = held
    assert at is not None
    few = len(stored[read[0]]) <= max(rows, sizes.current.marked_slots)
    return (stored, at.astype(np.int32, copy=False)) if few else None


def _marks(tests: Sequence[Asked], stored: Sequence[Column], size: int) -> Array:
    made: Array | None = None
    for k, test in enumerate(tests):
        mask = test.marks[0](stored, size)
        for other in test.marks[1:]:
            mask = mask & other(stored, size)
        bits = mask.view(np.uint8)
        if made is None:
            made = bits
        else:
            made = made | (bits << np.uint8(k))
    assert made is not None
    return made


def _rest(test: Asked, columns: Sequence[Column], rows: Rows) -> Mask:
    assert test.rest is not None
    some = list(columns)
    for k, column in zip(test.read, gather([columns[k] for k in test.read], rows), strict=True):
        some[k] = column
    return test.rest(some, len(rows))
