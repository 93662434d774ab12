"""Which live row a negative tuple ends: any with the same values and the same announced end (Golab & Özsu 2005, §5.3.2).

Two ways to find it, and the share of rows that end early tells which is cheaper:

SEARCH   no index: the partition of the calendar in which the row is to end is looked through; for rare negative tuples
NUMBER   a number for each (values, exp), and a line of slots under it, the oldest first; for frequent ones, and where nothing is announced

State      SEARCH: the words of each row; NUMBER: the same in a registry, its chains, and lines.
Cost       SEARCH: O(1) a row, and O(rows of a partition) a negative tuple; NUMBER: O(1) each, of a greater constant.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.errors import StateError
from penstock.kernels.join import retract as kernels
from penstock.state import key_words
from penstock.state.arena import Arena, Slab
from penstock.state.calendar import Calendar
from penstock.state.renumbering import Renumbering
from penstock.state.slot_pool import Pool, Slots
from penstock.state.value_ids import Ids, Registry
from penstock.types.batch import Array, Batch, Column, Ints
from penstock.types.event_time import FOREVER

NUMBER, SEARCH = 0, 1
KIND, EARLY, DUE, STUCK = 0, 1, 2, 3
WORTH = 20.0
"""Slots looked at for each row that ends, from which numbers are cheaper than searching: a look costs some 18 ns, a number
some 350 for each row (measured with 2,000 to 400,000 rows alive)."""
TURN = 4
"""So many times in the life of a row the choice is thought over."""


class Matching:
    """Rows that may end by negative tuples, by slot. Without a calendar every end is one."""

    def __init__(self, arena: Arena, name: str, pool: Pool, slab: Slab, calendar: Calendar | None) -> None:
        self._arena = arena
        self._name = f"{name}.match"
        self._types = pool.frame.types
        self._pool = pool
        self._slab = slab
        self._calendar = calendar
        self._width = key_words.width(self._types)
        begin = np.array([NUMBER if calendar is None else SEARCH, 0, 0, 0], np.int64)
        self._registers = arena.array(f"{self._name}.registers", np.int64, 4, begin)
        if self.kind == NUMBER:
            self._make_numbers()
        else:
            self._make_words()

    @property
    def kind(self) -> int:
        return int(self._registers[KIND])

    @property
    def structure(self) -> str:
        """In words."""
        if self._calendar is None:
            return "table of numbers, every end told"
        way = "in their partition" if self.kind == SEARCH else "by number"
        return f"negative tuples found {way} ({self.share:.0%} end early)"

    def fit(self, capacity: int) -> None:
        """Room for slots below `capacity`."""
        (self._links if self.kind == NUMBER else self._held).fit(capacity)

    def renumber(self, made: Renumbering) -> None:
        """Hold what was held under the slots before under the new ones."""
        if self.kind == SEARCH:
            self._held.renumber(made)
            return
        self._links.renumber(made)
        self._links.refer(made, "later")
        self._lines.refer(made, "first", "last")

    def shrink(self, coming: int) -> None:
        """Have no room for many more numbers than there are."""
        made = self._rows.shrink(coming) if self.kind == NUMBER else None
        if made is not None:
            self._lines.renumber(made)
            self._links.refer(made, "gid")

    def refer(self, made: Renumbering) -> None:
        """Let the first word of all rows, which is an id of others, be the new one."""
        if self.kind == NUMBER:
            self._rows.refer(made, 0)
        else:
            first = self._held["words"][:, 0]
            first[:] = made.of(first)

    def take(self, batch: Batch, slots: Slots, now: int) -> None:
        """Rows in time order: '+' has its slot, '-' is given the slot of the row that it ends at its time.

        Who is to end as announced is scheduled, who ends early is so no more.
        """
        calendar, sign = self._calendar, batch.sign
        sign = np.ones(len(batch), np.int8) if sign is None else sign
        if self.kind == SEARCH and int(batch.exp.max()) == FOREVER:
            # What never ends as announced stands in no calendar.
            self._registers[STUCK] = 1
            self._number(np.setdiff1d(self._pool.live(), slots[sign > 0]))
        if self.kind == NUMBER:
            done = self._by_number(batch, sign, slots)
            if done == len(batch) and calendar is not None:
                calendar.put(slots[sign > 0], batch.exp[sign > 0], now)
                calendar.cancel(slots[sign < 0])
        else:
            done = self._by_search(batch, sign, slots, now)
        if done < len(batch):
            raise StateError(f"a negative tuple at {int(batch.ts[done])} ends no live row")
        early = int((sign < 0).sum())
        self._registers[EARLY] += early
        # Who searches counts what it looks at.
        self._arena.visits += len(batch) - (early if self.kind == SEARCH else 0)

    def _by_number(self, batch: Batch, sign: Array, slots: Slots) -> int:
        gids = self._numbers(batch.columns, batch.exp)
        first, last, later = self._lines["first"], self._lines["last"], self._links["later"]
        done: int = kernels.match(batch.ts, sign, gids, slots, first, last, later, self._slab["end"])
        if done == len(batch):
            self._links["gid"][slots] = gids
        return done

    def _by_search(self, batch: Batch, sign: Array, slots: Slots, now: int) -> int:
        calendar = self._calendar
        assert calendar is not None
        table = key_words.rows(batch.columns, self._types, len(batch))
        calendar.make_way(batch.exp, now)
        done: int = kernels.search(
            batch.ts, batch.exp, sign, table, slots, self._held["words"], self._slab["end"],
            calendar.head, calendar.forth, calendar.back, calendar.when, calendar.registers,
        )  # fmt: skip
        return done

    def ended(self, natural: Slots) -> None:
        """These end as announced."""
        self._registers[DUE] += len(natural)
        if self.kind == NUMBER and len(natural):
            # All copies of such a row end together, so its line is simply emptied.
            self._lines["first"][self._links["gid"][natural]] = -1

    def free(self, slots: Slots) -> None:
        """These slots are about to hold other rows."""
        if self.kind == NUMBER:
            gids = np.unique(self._links["gid"][slots])
            self._rows.release(gids[self._lines["first"][gids] < 0])

    def _numbers(self, columns: Sequence[Column], exp: Ints) -> Ids:
        """The number of each (values, exp)."""
        table = np.empty((len(exp), self._width + 1), np.int64)
        table[:, :-1] = key_words.rows(columns, self._types, len(exp))
        table[:, -1] = exp
        gids = self._rows.ids(table)
        self._lines.fit(self._rows.capacity)
        return gids

    # ------------------------------------------------------------------ which

    @property
    def share(self) -> float:
        """How many of the rows that ended did so early, since the last choice."""
        early, due = int(self._registers[EARLY]), int(self._registers[DUE])
        return early / max(early + due, 1)

    def choose(self, size: int) -> None:
        """Change the way if the other is cheaper; between steps, with `size` rows alive."""
        calendar = self._calendar
        if calendar is None or self._registers[STUCK]:
            return
        if self._registers[EARLY] + self._registers[DUE] < max(256, size // TURN):
            return
        looks = self.share * calendar.crowd / 2
        self._registers[EARLY] = self._registers[DUE] = 0
        if self.kind == SEARCH and looks > WORTH:
            self._number(self._pool.live())
        elif self.kind == NUMBER and looks < WORTH / 2:
            self._search(self._pool.live())

    def _number(self, live: Slots) -> None:
        """From now on by number."""
        self._registers[KIND] = NUMBER
        self._arena.drop(f"{self._name}.held.")
        self._make_numbers()
        self.fit(self._slab.capacity)
        gids = self._numbers(self._pool.frame.at(live), self._slab["exp"][live])
        plus, later = np.ones(len(live), np.int8), self._links["later"]
        lines = (self._lines["first"], self._lines["last"])
        kernels.match(self._slab["exp"][live], plus, gids, live, *lines, later, self._slab["end"])
        self._links["gid"][live] = gids

    def _search(self, live: Slots) -> None:
        """From now on by searching."""
        self._registers[KIND] = SEARCH
        for part in ("rows", "lines", "links"):
            self._arena.drop(f"{self._name}.{part}.")
        self._make_words()
        self.fit(self._slab.capacity)
        self._held["words"][live] = key_words.rows(self._pool.frame.at(live), self._types, len(live))

    def _make_numbers(self) -> None:
        arena, name = self._arena, self._name
        self._rows = Registry(arena, f"{name}.rows", self._width + 1)
        self._lines = Slab(arena, f"{name}.lines", first=(np.int32, -1), last=(np.int32, -1))
        self._links = Slab(arena, f"{name}.links", later=(np.int32, -1), gid=(np.int32, -1))

    def _make_words(self) -> None:
        blank = np.zeros(self._width, np.int64)
        self._held = Slab(self._arena, f"{self._name}.held", words=(np.int64, blank))
