"""What every operator promises, and the little they share.

`step(inputs, now)` is called once per step with one batch per input and the new clock:

- every input row has previous clock < ts <= now; batches are sorted by ts, within an instant '-' before '+';
- the output obeys the same; rows have ts < exp; a '-' repeats the values and exp of a row sent before an
  earlier instant and not ended since;
- nothing is sent about an end that happens as announced, except on *told* edges (`plan.edge`), where every end is a '-';
- what is returned is read before the next call; cutting a stretch of time into other steps changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.kernels.state.live_row_events import time_order
from penstock.operators.expressions.evaluator import Evaluator
from penstock.plan.state_upkeep import Upkeep
from penstock.state.arena import Arena
from penstock.types.batch import ABSENT, Array, Batch, Column, Ints, concat


class Operator(Protocol):
    """A node of a running plan."""

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        """Changes on the inputs, time up to `now` → changes on the output."""
        ...


@dataclass(slots=True)
class Site:
    """Where an operator lives: its arena, a prefix for its arrays, and how expressions are run."""

    arena: Arena
    name: str
    evaluator: Evaluator
    since: int
    """The first instant the query sees."""
    upkeep: Upkeep
    tells: bool
    """Whether every end is to be told with a '-'; see `plan.edge`."""
    may_move: bool
    """Another operator may take the place of this one: all that is read of a row is kept."""


_NO_TIMES: Ints = np.empty(0, np.int64)


def placed(columns: Iterable[Column], where: Sequence[int], width: int) -> tuple[Column, ...]:
    """Columns at their places among `width`; what else there is nobody reads."""
    out: list[Column] = [ABSENT] * width
    for i, column in zip(where, columns, strict=False):
        out[i] = column
    return tuple(out)


def empty(columns: int) -> Batch:
    """No changes."""
    return Batch(_NO_TIMES, _NO_TIMES, (ABSENT,) * columns)


def in_order(ts: Ints, sign: NDArray[np.int8] | None) -> Array | None:
    """Positions that sort changes by time, '-' first, or None if they are in order."""
    if sign is None:
        return time_order(ts)
    return time_order(2 * ts + (sign > 0))


def together(batches: Sequence[Batch]) -> Batch:
    """Several batches of one edge as one, in order.

    A column that one of them lacks is read by no operator: what others still carry of it is left out.
    """
    filled = [b for b in batches if len(b)]
    if len(filled) <= 1:
        return filled[0] if filled else batches[0]
    sign = None
    if any(b.sign is not None for b in filled):
        sign = np.concatenate([signs(b) for b in filled])
    columns = tuple(
        ABSENT if ABSENT in parts else concat(parts)
        for parts in zip(*(b.columns for b in filled), strict=True)
    )
    made = Batch(
        np.concatenate([b.ts for b in filled]), np.concatenate([b.exp for b in filled]), columns, sign
    )
    order = in_order(made.ts, sign)
    return made if order is None else made.take(order)


def signs(batch: Batch) -> NDArray[np.int8]:
    return np.ones(len(batch), np.int8) if batch.sign is None else batch.sign
