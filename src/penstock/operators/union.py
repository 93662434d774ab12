"""Merge-union: the changes of all inputs in time order.

Paper      Golab & Özsu 2005, §2.1.
Invariant  output multiset = sum of the inputs' multisets.
Pattern    rule 2; windows of unequal length give WEAK.
State      none.
Cost       O(rows).
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.operators.contract import together
from penstock.types.batch import Batch


class MergeUnion:
    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        return together(inputs)
