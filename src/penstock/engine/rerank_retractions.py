"""Ends of results that were told by ranks of before.

A '-' repeats the columns of the '+' it ends, its `__rank` too. After ALTER QUERY … SET RANK the plan says new ranks of the rows
that end as of those that begin, so each '-' is given the rank with which its '+' was told: of equal rows the oldest ends first.

State      none: the kept answer has the rows that were told.
Cost       O(rows of the answer) a step with '-', as long as rows of before may be in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.state import key_words
from penstock.types.batch import Batch, Column, concat
from penstock.types.data_type import Type


def as_told(batch: Batch, live: Batch, types: Sequence[Type], rank: int) -> Batch:
    """The changes, every '-' with the rank of the row among those alive, or told before it in the batch, that it ends."""
    assert batch.sign is not None
    new, gone = batch.take(np.flatnonzero(batch.sign > 0)), np.flatnonzero(batch.sign < 0)
    parts = (live, new, batch.take(gone))
    told, n = len(live) + len(new), len(live) + len(batch)
    others = [k for k in range(len(types)) if k != rank]
    columns = [concat([part.columns[k] for part in parts]) for k in others]
    table = np.column_stack(
        [key_words.rows(columns, [types[k] for k in others], n), np.concatenate([part.exp for part in parts])]
    )
    _, ids = np.unique(table, axis=0, return_inverse=True)
    numbered = [np.column_stack([side, key_words.copies(side)]) for side in np.split(ids.reshape(-1), [told])]
    _, pairs = np.unique(np.concatenate(numbered), axis=0, return_inverse=True)
    there, leaving = np.split(pairs.reshape(-1), [told])
    _, begun, ended = np.intersect1d(there, leaving, return_indices=True)
    before = concat([live.columns[rank], new.columns[rank]]).take(begun)
    now = batch.columns[rank]
    values, valid = (
        now.values.copy(),
        np.ones(len(batch), np.bool_) if now.valid is None else now.valid.copy(),
    )
    values[gone[ended]] = before.values
    valid[gone[ended]] = True if before.valid is None else before.valid
    columns_now = list(batch.columns)
    columns_now[rank] = Column(values, valid)
    return batch.with_columns(tuple(columns_now))
