"""Rows by marks that what they are made of has: RANK and CASE over a join's results, in one pass."""

from __future__ import annotations

from penstock.kernels.compile import ix, kernel


@kernel
def first_marked(marks, rows, value_of, known_of, open_of, values, known, some):
    """By a row's marks, where it is stored: its value, whether it has one, and, listed in `some`, rows that more is to be asked of; how many."""
    asked = 0
    for i in range(rows.shape[0]):
        mark = marks[ix(rows[ix(i)])]
        values[ix(i)] = value_of[ix(mark)]
        known[ix(i)] = known_of[ix(mark)]
        some[ix(asked)] = i
        asked += open_of[ix(mark)]
    return asked


@kernel
def write_some(rows, chosen, value, values, known):
    """A value for the chosen ones of some rows."""
    for i in range(rows.shape[0]):
        if chosen[ix(i)]:
            values[ix(rows[ix(i)])] = value
            known[ix(rows[ix(i)])] = True
