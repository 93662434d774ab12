"""Frequent values as cells tell each other of them, and the summary of several summaries.

Paper      Agarwal, Cormode, Huang, Phillips, Wei, Yi 2012 (Mergeable Summaries); for Space-Saving as in Cafaro & Tempesta 2011.
Invariant  of a value that is there: sure ≤ what was counted of it in all ≤ count. One that is not was counted `rest` times at the most, and
           that is no more than 1 / room of all: whoever has more is there, however many summaries were merged.
State      `room` values and their counts, however many there are.
Cost       O(summaries × room) to merge.

Why that holds: a value that a summary does not have counts there as its `rest`. So every sum is that of counts above the rests, and the same number
more for all; of counts above the rests there are at most `total - room × rest` in a summary, which the values that are left out share with
`room` others that have as many (Agarwal et al., Theorem 1). All of it is linear: fading keeps it.

A value is a text, or the 64-bit word of anything else (`state.key_words`), which means the same everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Any

import numpy as np

from penstock.state.frequent_values import Floats

Value = str | int
GRAIN = 1000
"""Parts of one that are told; bounds are rounded away from each other."""


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """`beside`: by side what made each value frequent, then by side what came with it, as in `state.frequent_values`."""

    values: tuple[Value, ...]
    count: Floats
    sure: Floats
    beside: Floats
    total: Floats
    came: Floats
    rest: float

    def faded(self, by: float) -> Summary:
        if by >= 1:
            return self
        counts = self.count * by, self.sure * by, self.beside * by
        return Summary(self.values, *counts, self.total * by, self.came * by, self.rest * by)

    def json(self) -> dict[str, Any]:
        return {
            "values": list(self.values),
            "count": [_up(n) for n in self.count.tolist()],
            "sure": [_down(n) for n in self.sure.tolist()],
            "beside": [[_down(n) for n in row] for row in self.beside.tolist()],
            "total": self.total.tolist(),
            "came": self.came.tolist(),
            "rest": _up(self.rest),
        }

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Summary:
        """What `json` gave."""
        values = tuple(told["values"])
        numbers = (np.array(told[part], np.float64) for part in ("count", "sure", "beside", "total", "came"))
        count, sure, beside, total, came = numbers
        return cls(
            values, count, sure, beside.reshape(2 * len(total), len(values)), total, came, told["rest"]
        )


def merged(summaries: Sequence[Summary], room: int) -> Summary:
    """One of several over the same sides.

    >>> def one(values, count, rest):
    ...     counts = np.array(count, np.float64)
    ...     return Summary(values, counts, counts, np.stack([counts, counts]), counts[:1], counts[:1], rest)
    >>> both = merged([one(("p", "q"), [5, 2], 2.0), one(("q", "r"), [4, 1], 0.0)], 2)
    >>> both.values, both.count.tolist(), both.sure.tolist(), both.rest
    (('q', 'p'), [6.0, 5.0], [6.0, 5.0], 3.0)
    """
    values = list(dict.fromkeys(v for one in summaries for v in one.values))
    place = {v: n for n, v in enumerate(values)}
    first = summaries[0]
    rest = sum(one.rest for one in summaries)
    count, sure = np.full(len(values), rest), np.zeros(len(values))
    beside = np.zeros((len(first.beside), len(values)))
    for one in summaries:
        at = [place[v] for v in one.values]
        count[at] += one.count - one.rest
        sure[at] += one.sure
        beside[:, at] += one.beside
    order = np.argsort(-count, kind="stable")
    kept, gone = order[:room], order[room:]
    rest = max([rest, *count[gone[:1]].tolist()])
    total, came = sum(one.total for one in summaries), sum(one.came for one in summaries)
    chosen = tuple(values[k] for k in kept.tolist())
    return Summary(
        chosen, count[kept], sure[kept], beside[:, kept], np.asarray(total), np.asarray(came), rest
    )


def _up(n: float) -> float:
    return ceil(n * GRAIN) / GRAIN


def _down(n: float) -> float:
    return floor(n * GRAIN) / GRAIN
