"""The values of a type on one line: comparisons with constants as spans of it.

A span [low, high) is made of *marks*; a value lies in it if low <= value < high. Numbers are marked by 64-bit integers that
are ordered as the values are (−0.0 is 0.0, NaN is the greatest), strings by (text, whether just behind it).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock.plan.normal_form import Atom
from penstock.types.batch import Array, Ints
from penstock.types.data_type import Type

Mark = Any
"""An int or (text, 0 | 1): what marks of one subject are, they all are."""
Span = tuple[Mark | None, Mark | None]
"""None: no end on this side."""

EVERYTHING: list[Span] = [(None, None)]
_TOP = 2**63 - 1


def holds_for(atom: Atom) -> tuple[list[Span], bool]:
    """Where an atom is true, and whether it is for NULL."""
    if atom.test == "is_null":
        return [], True
    if atom.test == "is_not_null":
        return EVERYTHING, False
    if atom.subject.type is Type.STRING:
        return _texts(atom.test, str(atom.value)), False
    assert isinstance(atom.value, int | float)
    if atom.subject.type.is_float:
        mark = real_mark(float(atom.value))
        return _spans(atom.test, mark, mark + 1), False
    return [span for one in _whole(atom.test, atom.value) for span in _within(*one)], False


def _within(low: int | None, high: int | None) -> list[Span]:
    """The span as far as there are 64-bit integers."""
    if (low is not None and low >= 2**63) or (high is not None and high <= -(2**63)):
        return []
    return [
        (None if low is None or low <= -(2**63) else low, None if high is None or high >= 2**63 else high)
    ]


def _spans(test: str, low: Mark, high: Mark) -> list[Span]:
    """The values of one constant lie in [low, high)."""
    return {
        "<": [(None, low)],
        "<=": [(None, high)],
        ">": [(high, None)],
        ">=": [(low, None)],
        "=": [(low, high)],
        "<>": [(None, low), (high, None)],
    }[test]


def _whole(test: str, value: float) -> list[Span]:
    """Whole numbers against any number."""
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            below = value < 0
            return EVERYTHING if test == "<>" or ((test in (">", ">=")) is below and test != "=") else []
        floor = math.floor(value)
        if floor != value:
            return _spans(test, floor + 1, floor + 1) if test != "=" else []
        value = floor
    return _spans(test, int(value), int(value) + 1)


def _texts(test: str, text: str) -> list[Span]:
    if test in ("prefix", "not_prefix"):
        low, high = (text, 0), _behind(text)
        if test == "prefix":
            return [(low, high)]
        return [(None, low)] if high is None else [(None, low), (high, None)]
    return _spans(test, (text, 0), (text, 1))


def _behind(prefix: str) -> Mark | None:
    """The first text behind all that begin so: the last letter that has a successor is raised (surrogates are no letters)."""
    while prefix:
        last = ord(prefix[-1])
        if last < 0x10FFFF:
            return (prefix[:-1] + chr(0xE000 if last == 0xD7FF else last + 1), 0)
        prefix = prefix[:-1]
    return None


def real_mark(value: float) -> int:
    return int(real_marks(np.array([value], np.float64))[0])


def real_marks(values: Array) -> Ints:
    """Numbers with a point as integers of the same order."""
    with np.errstate(invalid="ignore"):  # under NULL anything may stand
        bits = (values.astype(np.float64) + 0.0).view(np.int64)
    marks: Ints = bits ^ ((bits >> 63) & _TOP)
    nan = np.isnan(values)
    if nan.any():
        marks[nan] = np.float64(np.nan).view(np.int64)
    return marks


def covered(
    spans: Sequence[Span], bounds: Sequence[Mark], find: Callable[[Sequence[Mark], Mark], int]
) -> Array:
    """Which cells between bounds lie in one of the spans, whose ends are all bounds."""
    made = np.zeros(len(bounds) + 1, np.bool_)
    for low, high in spans:
        first = 0 if low is None else find(bounds, low) + 1
        made[first : len(made) if high is None else find(bounds, high) + 1] = True
    return made
