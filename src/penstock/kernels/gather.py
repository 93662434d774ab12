"""Payload at row numbers: what leaves of a join, a group or a set."""

from __future__ import annotations

from penstock.kernels.compile import ix, kernel


@kernel
def gather(values, rows, out):
    """out = values[rows]; every row is there. NumPy's `take` first makes row numbers of 64 bits and then checks each."""
    for i in range(rows.shape[0]):
        out[ix(i)] = values[ix(rows[ix(i)])]
