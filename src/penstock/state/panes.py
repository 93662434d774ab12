"""Slots by the pane in which their rows end, so that what is over is found without looking at what is not (Works 2013, §7.3.1)."""

from __future__ import annotations

import itertools

import numpy as np

from penstock.state.slot_pool import NO_SLOTS, Slots
from penstock.types import sizes
from penstock.types.batch import Ints
from penstock.types.event_time import FOREVER


class Panes:
    """Runs of slots, one list a pane. Nothing of it is saved: it can be made again from when rows end.

    Cost  to put: nothing; to find what is over: O(rows put since, and found) and one pane.
    """

    __slots__ = ("_new", "_runs", "_width")

    def __init__(self) -> None:
        self._width = 0
        self._runs: dict[int, list[Slots]] = {}
        self._new: list[Slots] = []

    def put(self, slots: Slots) -> None:
        if len(slots):
            self._new.append(slots)

    def _sort(self, times: Ints, ends: Ints) -> None:
        """Lay what was put into panes; who never ends is in none."""
        slots = self._new[0] if len(self._new) == 1 else np.concatenate(self._new)
        self._new = []
        exp = ends[slots]
        if exp.max() == FOREVER:
            slots = slots[exp < FOREVER]
            exp = ends[slots]
            if not len(slots):
                return
        if not self._width:
            self._width = max(1, int((exp - times[slots]).max()) // sizes.current.panes)
        pane = exp // self._width
        order = np.argsort(pane, kind="stable")
        slots, pane = slots[order], pane[order]
        cuts = [0, *(np.flatnonzero(pane[1:] != pane[:-1]) + 1).tolist(), len(slots)]
        for first, last in itertools.pairwise(cuts):
            self._runs.setdefault(int(pane[first]), []).append(slots[first:last])

    def take(self, until: int, ts: Ints, exp: Ints) -> Slots:
        """Slots whose rows end until then, which are here no more; `ts`, `exp`: by slot. In order: slots are given anew in the order in
        which they become free, and that must not hang on whether runs were made again."""
        if self._new:
            self._sort(ts, exp)
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
