"""Slots by the pane in which their rows end, so that what is over is found without looking at what is not (Works 2013, §7.3.1)."""

from __future__ import annotations

import numpy as np

from penstock.data.batch import Ints
from penstock.data.clock import FOREVER
from penstock.state.pool import NO_SLOTS, Slots

PANES = 32
"""Panes of the longest lifetime among the first rows."""


class Panes:
    """Runs of slots, one list a pane. Nothing of it is saved: it can be made again from when rows end.

    Cost  to put: O(rows); to find what is over: O(rows found) and one pane.
    """

    __slots__ = ("_runs", "_width")

    def __init__(self) -> None:
        self._width = 0
        self._runs: dict[int, list[Slots]] = {}

    def put(self, slots: Slots, ts: Ints, exp: Ints) -> None:
        """Slots whose rows end at `exp`; who never ends is in no pane."""
        if len(exp) and exp.max() == FOREVER:
            ends = exp < FOREVER
            slots, ts, exp = slots[ends], ts[ends], exp[ends]
        if not len(slots):
            return
        if not self._width:
            self._width = max(1, int((exp - ts).max()) // PANES)
        pane = exp // self._width
        first, last = int(pane.min()), int(pane.max())
        for one in [first] if first == last else np.unique(pane).tolist():
            mine = slots if first == last else slots[pane == one]
            self._runs.setdefault(one, []).append(mine)

    def take(self, until: int, exp: Ints) -> Slots:
        """Slots whose rows end until then, which are here no more; `exp`: by slot. In order: slots are given anew in the order in which
        they become free, and that must not hang on whether runs were made again."""
        found = []
        for pane in [p for p in self._runs if p * self._width <= until]:
            runs = self._runs.pop(pane)
            slots = runs[0] if len(runs) == 1 else np.concatenate(runs)
            if (pane + 1) * self._width > until + 1:
                over = exp[slots] <= until
                if not over.all():
                    self._runs[pane] = [slots[~over]]
                    slots = slots[over]
            found.append(slots)
        return np.sort(np.concatenate(found)) if found else NO_SLOTS
