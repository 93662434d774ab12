"""The routes of a core under overload: every stream's rows go from operator to operator, and wait by level before each.

Paper      Works 2013, §4.1.3, §4.2 (queues by rank, classifiers, joins that carry rank); Madden et al. 2002 (SteMs).
Invariant  a result is made once, by the row of it that was built last: its walk meets only rows built before it, and these
           stay until nothing that waits, or is still to come, can meet them. So the results of all rows that are not dropped are those of
           the ordinary join, whatever the order in which rows are worked on.
Pattern    rows that end as announced in, the same out; not in time order.
State      a stock of rows for each input (`state.priority_stem`), lanes before each operator (`state.priority_queue`).
Cost       a unit a row, a unit for every candidate it meets, what predicates cost, and questions (`overload.semijoin_checks`).

Rows are tested first, if there is anything to test. The first operator that looks partners up builds them into their SteM before,
the others look them up in one more input each. A classifier stands before every operator, so that what it finds insignificant need
not be built. It is skipped when there is nothing to evaluate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from penstock.kernels.join import tiered_chains
from penstock.operators.contract import Site
from penstock.overload import probe_passes
from penstock.overload.classifiers import Classifiers
from penstock.overload.queued_operator import Stop
from penstock.overload.semijoin_checks import Asking
from penstock.overload.spj_plan import Core, time_of
from penstock.plan.catalog import Function
from penstock.plan.rank_levels import Disjunct
from penstock.state import key_words
from penstock.state.hash_index import TierIndex
from penstock.state.priority_queue import (
    BACK_BURNER,
    CAME,
    DESIGNATED,
    END,
    FROM,
    LEVEL,
    NEXT,
    ORDER,
    PROMISE,
    SEQ,
    SLOTS,
    TO,
    TS,
    Lane,
    degrade,
)
from penstock.state.priority_stem import DEAD, RESTING, UNBUILT
from penstock.state.slot_pool import Slots
from penstock.types.batch import ABSENT, Array, Batch, Column, Ints, concat
from penstock.types.event_time import FOREVER

NEVER = np.iinfo(np.int64).min
FORESEEN = 8.0
"""Rows that what is foreseen of an operator counts for, until some have passed it."""
RECENT = 0.3
"""The weight of the last step among those before."""


class Watch(Protocol):
    """Looks at rows before an operator works on them, and at what leaves it."""

    def come(self, stop: Stop, rows: Ints) -> None: ...

    def leave(self, stop: Stop, rows: Ints) -> None: ...


class Routes(Classifiers):
    """`wanted`: columns of the core's inputs, side by side, that somebody reads of a result; `stored`: others that are kept of rows."""

    def __init__(
        self,
        site: Site,
        core: Core,
        wanted: frozenset[int],
        disjuncts: Sequence[Disjunct],
        functions: Mapping[str, Function],
        stored: frozenset[int] = frozenset(),
    ) -> None:
        super().__init__(site, core, wanted | stored, disjuncts, functions)
        self.wanted = wanted
        self._numbers = 0
        self._arrivals = 0
        self.arrived_of_late: dict[int, float] = {}
        """By input: rows of a step."""
        self.watch: Watch | None = None
        """Who looks at what rows come to, if anybody does."""
        self.tally = np.zeros(1, np.int64)
        self.asking = Asking(site.upkeep.demand, self.routes_by)
        self.denied: Callable[[Stop, Ints], None] | None = None
        """Looks at rows that are not followed, since some input has nobody for them."""
        self.partial = 0
        """Partial results made, since this process began."""

    # ------------------------------------------------------------------ rows come

    def admit(self, which: int, batch: Batch, came: int) -> Ints:
        """Rows of a stream, from now on waiting before its first operator."""
        keys = self._keys[which]
        batch, made = keys.clean(batch)
        n = len(batch)
        rows = np.empty((SLOTS + len(self.core.inputs), n), np.int64)
        if not n:
            return rows
        slots = self._add(which, batch, made, came)
        rows[TS], rows[END] = batch.ts, batch.exp
        rows[FROM], rows[TO] = NEVER, FOREVER
        rows[CAME], rows[SEQ], rows[LEVEL] = came, 0, BACK_BURNER
        rows[PROMISE], rows[DESIGNATED], rows[NEXT] = BACK_BURNER, -1, 0
        rows[ORDER] = np.arange(self._arrivals, self._arrivals + n)
        rows[SLOTS:] = -1
        rows[SLOTS + which] = slots
        self._arrivals += n
        return rows

    def can_join(self, which: int, batch: Batch) -> Array:
        """Which rows of an input are to wait: without a key nobody meets them."""
        return self._keys[which].can_match(batch)

    def note_arrivals(self, counts: Mapping[int, int]) -> None:
        """How many rows of each input came in a step."""
        for which in self.routes_by:
            before, now = self.arrived_of_late.get(which), float(counts.get(which, 0))
            self.arrived_of_late[which] = now if before is None else before + RECENT * (now - before)

    def _add(self, which: int, batch: Batch, keys: Sequence[Ints], came: int) -> Slots:
        held = self._keys[which].held(batch)
        time = time_of(self.core.inputs[which])
        stored = tuple(
            Column(np.full(len(batch), NEVER if k == time else 0, self._schemas[which][k].type.dtype))
            if batch.columns[k] is ABSENT  # only tests read it, and these were passed elsewhere
            else batch.columns[k]
            for k in self._stored[which]
        )
        slots = self.stocks[which].add(stored + held, batch.ts, batch.exp, came, BACK_BURNER)
        self.stocks[which].set_keys(slots, keys)
        return slots

    def update(self, which: int, batch: Batch) -> None:
        """A table changes: rows of it begin, and rows end."""
        stock = self.stocks[which]
        for i, route in self.routes_by.items():
            slots = np.union1d(self.stocks[i].resting(), self._looked_up(route)).astype(np.int32)
            if len(slots):
                # What came so far has met the table as it was; what comes now may find them with the table as it is.
                self._number(i, slots, assessed=False)
        gone = None if batch.sign is None else batch.take(np.flatnonzero(batch.sign < 0))
        new = batch if batch.sign is None else batch.take(np.flatnonzero(batch.sign > 0))
        new, keys = self._keys[which].clean(new)
        if len(new):
            slots = self._add(which, new, keys, NEVER)
            stock.exp[slots] = FOREVER
            stock.build(slots, np.full(len(slots), -1))
        if gone is not None and len(gone):
            self._end(which, gone)

    def _looked_up(self, route: Sequence[Stop]) -> Ints:
        """Rows that have looked up a table and are not built yet."""
        which = route[0].route
        waiting = [
            chunk[SLOTS + which]
            for stop in route
            if (stop.before or stop.builds) and any(s.before for s in route[: stop.at])
            for lane in stop.every()
            for chunk in lane.chunks()
        ]
        slots: Ints = np.concatenate(waiting) if waiting else np.empty(0, np.int64)
        found: Ints = slots[self.stocks[which].built[slots] == UNBUILT]
        return found

    def _end(self, which: int, gone: Batch) -> None:
        """Versions of a table's rows end; of equal ones the oldest first."""
        stock, stored = self.stocks[which], self._stored[which]
        live = stock.stored()
        live = live[stock.exp[live] == FOREVER]
        live = live[np.argsort(stock.ts[live], kind="stable")]
        types = [self._schemas[which][k].type for k in stored]
        both = [concat([a, gone.columns[k]]) for a, k in zip(stock.columns(live), stored, strict=False)]
        table = key_words.rows(tuple(both), types, len(live) + len(gone))
        _, ids = np.unique(table, axis=0, return_inverse=True)
        # The n-th that leaves of equal rows is the n-th that came: changes are in time order.
        there, leaving = ids.reshape(-1)[: len(live)], ids.reshape(-1)[len(live) :]
        numbered = [np.column_stack([side, key_words.copies(side)]) for side in (there, leaving)]
        _, pairs = np.unique(np.concatenate(numbered), axis=0, return_inverse=True)
        _, mine, theirs = np.intersect1d(
            pairs.reshape(-1)[: len(live)], pairs.reshape(-1)[len(live) :], return_indices=True
        )
        stock.end(live[mine], gone.ts[theirs])

    def take_over(self, which: int, rows: Batch) -> None:
        """Rows that were joined elsewhere until now: what they meet from now on is made here."""
        rows, keys = self._keys[which].clean(rows)
        if len(rows):
            slots = self._add(which, rows, keys, NEVER)
            self.stocks[which].build(slots, np.full(len(slots), -1), assessed=not self._asked(which))

    def foresee(self) -> None:
        """Of operators that nobody has passed yet: what the rows that are there would have met, had they come one after the other. So the
        first rows that wait go where those after them do."""
        for stop in self.stops:
            if stop.target is None or stop.came:
                continue
            met = float(len(self.stocks[stop.target].stored()))
            if stop.partner >= 0:
                there, own = (
                    self.stocks[i]
                    .indexes[self._keys[i].index([e.side(i) for e in stop.equal])]
                    .key[self.stocks[i].stored()]
                    for i in (stop.target, stop.partner)
                )
                if not (len(there) and len(own)):
                    continue
                values, counts = np.unique(there, return_counts=True)
                at = np.minimum(np.searchsorted(values, own), len(values) - 1)
                met = float((counts[at] * (values[at] == own)).mean())
            stop.came, stop.left = FORESEEN, FORESEEN * met
            stop.spent = FORESEEN * (1 + met * (1 + stop.tested))

    def widen(self, columns: frozenset[int]) -> None:
        """Keep more of rows. Those that are there say nothing of it; of times, that they came before all that anybody asks about."""
        for i, (schema, start, stock) in enumerate(
            zip(self._schemas, self._starts, self.stocks, strict=True)
        ):
            before = self._stored[i]
            stored = tuple(k for k in range(len(schema)) if k in before or start + k in columns)
            if stored == before:
                continue
            places = [stored.index(k) for k in before]
            places += range(len(stored), len(stored) + len(self._keys[i].strings))
            time = time_of(self.core.inputs[i])
            fills = {stored.index(time): NEVER} if time in stored else {}
            stock.widen([schema[k].type for k in stored] + self._keys[i].strings, places, fills)
            self._stored[i] = stored

    def alive(self, which: int, now: int) -> Batch:
        """Rows of an input that have not ended, built or kept from it by a table, for somebody else to go on with, in the order in which they end."""
        stock = self.stocks[which]
        slots = np.union1d(stock.stored(), stock.resting()).astype(np.int32)
        slots = slots[stock.exp[slots] > now]
        slots = slots[np.argsort(stock.exp[slots], kind="stable")]
        out: list[Column] = [ABSENT] * len(self._schemas[which])
        for k, column in zip(self._stored[which], stock.columns(slots), strict=False):
            out[k] = column
        return Batch(np.full(len(slots), now), stock.exp[slots], tuple(out))

    # ------------------------------------------------------------------ an operator

    def work(self, stop: Stop, rows: Ints, level: int = BACK_BURNER) -> tuple[Ints, float, Ints | None]:
        """Let rows pass an operator: what leaves it, the units spent, and rows that are to come back for further levels.

        `level`: the one that is being worked on. The back burner is all of them.
        """
        if self.watch is not None:
            self.watch.come(stop, rows)
        new, left = np.count_nonzero(rows[NEXT] == 0), None
        if stop.target is None:
            out, spent = self._tried(stop, rows)
        elif self.core.inputs[stop.target].table:
            out, spent, _ = self._probed(stop, rows, BACK_BURNER)
        else:
            out, spent, left = self._probed(stop, rows, level)
        degrade(out, stop.at)
        out[NEXT] = 0
        stop.count(int(new), out.shape[1], spent)
        self.asking.judge(stop)
        if stop.target is not None and not stop.last:
            self.partial += out.shape[1]
        if self.watch is not None:
            self.watch.leave(stop, out)
        return out, spent, left

    def _tried(self, stop: Stop, rows: Ints) -> tuple[Ints, float]:
        spent = rows.shape[1] * (1 + stop.tested)
        for test in stop.tests:
            if not rows.shape[1]:
                break
            passed = self.holds(test, rows)
            if not passed.all():
                self.dropped(stop, rows[:, ~passed])
                rows = rows[:, passed]
        if stop.last:
            self.dropped(stop, rows)  # a row is its own result: nobody will meet it
        return rows, spent

    def _built(self, stop: Stop, rows: Ints) -> None:
        """Rows that are not built yet are; behind a table, a row may drive several partial results, one for each row of it."""
        which = stop.route
        stock, slots = self.stocks[which], rows[SLOTS + which].astype(np.int32)
        new = slots[stock.built[slots] == UNBUILT]
        self._number(which, new if stop.at == 0 else np.unique(new), assessed=self._is_assessed(which))
        rows[SEQ] = stock.built[slots]

    def _number(self, which: int, slots: Slots, *, assessed: bool) -> None:
        numbers = np.arange(self._numbers, self._numbers + len(slots))
        self.stocks[which].build(slots, numbers, assessed=assessed)
        self._numbers += len(slots)

    def _probed(self, stop: Stop, rows: Ints, level: int) -> tuple[Ints, float, Ints | None]:
        target = stop.target
        assert target is not None
        if stop.builds:
            self._built(stop, rows)
        rows, asking = self._demanded(stop, rows)
        if not rows.shape[1]:
            return rows, asking, None
        one, stock = self.core.inputs[target], self.stocks[target]
        index = stock.indexes[self._keys[target].index([e.side(target) for e in stop.equal])]
        keys = self.probe_keys(stop, rows)
        at, slots, beyond = self._met(stop, rows, keys, index, level)
        left = None if beyond is None else probe_passes.left_over(stop, rows, beyond)
        out: Ints = rows.take(at, axis=1)  # a third of the time of rows[:, at]
        out[SLOTS + target] = slots
        if one.table:
            # A table is looked up as of the result's time, which is not known before all streams are there.
            out[FROM] = np.maximum(out[FROM], stock.ts[slots])
            out[TO] = np.minimum(out[TO], stock.exp[slots])
        else:
            out[TS] = np.maximum(out[TS], stock.ts[slots])
            out[END] = np.minimum(out[END], stock.exp[slots])
            out[LEVEL] = np.minimum(out[LEVEL], stock.level[slots])
            out[CAME] = np.maximum(out[CAME], stock.came[slots])
        spent = asking + rows.shape[1] + int(self.tally[0]) + len(at) * stop.tested
        for test in stop.tests:
            if not out.shape[1]:
                break
            out = out.compress(self.holds(test, out), axis=1)
        if stop.before:
            stock, own = self.stocks[stop.route], SLOTS + stop.route
            stock.lay_aside(np.setdiff1d(rows[own], out[own]).astype(np.int32), RESTING)
        if stop.last:
            true = (out[FROM] <= out[TS]) & (out[TS] < out[TO])
            out = out if true.all() else out.compress(true, axis=1)
        return out, spent, left

    def _demanded(self, stop: Stop, rows: Ints) -> tuple[Ints, float]:
        """Rows that are worth following, since all inputs that are asked support them; and the units it took to know."""
        spent = 0.0
        if self.watch is not None:
            return rows, spent  # what rows come to is learnt from all that are followed, asked or not
        for question in self.asking.at(stop):
            new = np.flatnonzero(rows[NEXT] == 0)  # rows in process were asked before
            if not len(new):
                break
            later, target = question.later, question.later.target
            assert target is not None
            stock, asked = self.stocks[target], rows.take(new, axis=1)
            index = stock.indexes[self._keys[target].index([e.side(target) for e in later.equal])]
            there, took = self.asking.put(question, asked, self.probe_keys(later, asked), stock, index)
            spent += took
            if not there.all():
                gone = asked.compress(~there, axis=1)
                took = self.assess(stop, self.asking.pending(stop), gone)
                question.units += took
                spent += took
                stop.denied += gone.shape[1]
                if self.denied is not None:
                    self.denied(stop, gone)
                rows = np.delete(rows, new[~there], axis=1)
        return rows, spent

    def _met(
        self, stop: Stop, rows: Ints, keys: Ints, index: TierIndex, level: int
    ) -> tuple[Slots, Slots, Ints | None]:
        """Which rows meet whom, as pairs; and the level at which each has partners left, 0 for none (None: nobody has)."""
        assert stop.target is not None
        stock, n = self.stocks[stop.target], rows.shape[1]
        given = keys, rows[TS], rows[END], rows[SEQ]
        chained = index.head, index.chain, stock.ts, stock.exp, stock.built
        held = stock.tiers
        whole = len(held) == 1 and level == BACK_BURNER and not rows[NEXT].any()
        beyond = None
        if not whole:
            beyond = np.zeros(n, np.int64)
            depth = probe_passes.depths(stop, rows, level, self._hopeful(stop))
            few = int(probe_passes.FEW / (1 + stop.tested))
        pairs, found = [], []
        done, room = 0, max(256, 2 * n)
        self.tally[0] = 0
        while done < n:
            row, slot = np.empty(room, np.int32), np.empty(room, np.int32)
            before = done
            if whole:
                done, made = tiered_chains.probe_all(
                    *given, done, held[0], index.key, *chained, row, slot, self.tally
                )
            else:
                done, made = tiered_chains.probe(
                    *given, rows[NEXT], depth, few, done, held, stock.over, index.key, index.tier, *chained,
                    row, slot, beyond, self.tally,
                )  # fmt: skip
            pairs.append(row[:made])
            found.append(slot[:made])
            if done == before:
                room *= 2
        if len(pairs) == 1:
            return pairs[0], found[0], beyond
        return np.concatenate(pairs), np.concatenate(found), beyond

    def _hopeful(self, stop: Stop) -> bool:
        route = self.routes_by[stop.route]
        return stop.at == self.meets[stop.route] and not any(s.assessed for s in route)

    def probe_keys(self, stop: Stop, rows: Ints) -> Ints:
        if stop.partner < 0:
            return np.zeros(rows.shape[1], np.int64)
        number = self._keys[stop.partner].index([e.side(stop.partner) for e in stop.equal])
        keys: Ints = self.stocks[stop.partner].indexes[number].key[rows[SLOTS + stop.partner]]
        return keys

    # ------------------------------------------------------------------ rows leave

    def made(self, rows: Ints) -> Batch:
        """Results, their columns read; their lineage is the order in which their driving rows came."""
        found = self.columns(rows, self.wanted)
        for column in found:
            _ = column.values
        return Batch(rows[TS], rows[END], found, lineage=rows[ORDER])

    def dropped(self, stop: Stop, rows: Ints) -> None:
        """Partial results that nobody goes on with: rows that were not built yet leave their stock. Those in process were."""
        rows = rows[:, rows[NEXT] == 0]
        stock, slots = self.stocks[stop.route], rows[SLOTS + stop.route].astype(np.int32)
        if stop.target is None or (stop.at == 0 and (stop.before or stop.builds)):
            stock.drop(slots)
        elif stop.before or stop.builds:
            stock.lay_aside(slots, DEAD)  # another partial result may name the row

    # ------------------------------------------------------------------ leaving and coming back

    def save(self) -> dict[str, Any]:
        """Everything but rows: these are in stocks, and in lanes, which are named."""
        return {
            "numbers": [self._numbers, self._arrivals],
            "shares": [[share.tested, share.passed] for share in self.shares],
            "arrived": [[which, rows] for which, rows in self.arrived_of_late.items()],
            "assessed": [[self.determinants.index(d) for d in stop.assessed] for stop in self.stops],
            "measured": [[stop.came, stop.left, stop.spent, stop.denied] for stop in self.stops],
            "asking": self.asking.save(),
            "lanes": [[name for name, lane in stop.named() if len(lane)] for stop in self.stops],
        }

    def take_up(self, was: Mapping[str, Any]) -> None:
        self._numbers, self._arrivals = was["numbers"]
        for share, (tested, passed) in zip(self.shares, was["shares"], strict=True):
            share.tested, share.passed = tested, passed
        self.arrived_of_late = dict(was["arrived"])
        self.asking.take_up(was["asking"])
        for stop, assessed, measured in zip(self.stops, was["assessed"], was["measured"], strict=True):
            stop.assessed = tuple(self.determinants[n] for n in assessed)
            stop.came, stop.left, stop.spent, stop.denied = measured

    def progress(self, clock: int) -> int:
        """Nothing that waits, or is still to come, makes a result before this instant."""
        return min(self._least(stop.every(), clock) for stop in self.stops)

    def _least(self, lanes: Iterable[Lane], clock: int) -> int:
        """The earliest time of what waits there; if nothing does, of what is still to come."""
        return min([clock + 1, *(int(c[TS].min()) for lane in lanes for c in lane.chunks())])

    def _least_built(self, stop: Stop, clock: int) -> int:
        """The same of rows in process, and of those that wait where rows are built though theirs is already: with another of a table's
        rows they have been there before."""
        built = self.stocks[stop.route].built
        found = [self._least(stop.aside.values(), clock)]
        if stop.at > 0:
            for chunk in (chunk for lane in stop.every() for chunk in lane.chunks()):
                there = built[chunk[SLOTS + stop.route]] < UNBUILT
                if there.any():
                    found.append(int(chunk[TS, there].min()))
        return min(found)

    def purge(self, clock: int) -> None:
        """Let go of rows that nothing can meet any more.

        A built row is met by rows of other routes, and named by partial results of its own, and by itself while it is in process. One that
        was laid aside may be named by any that waits.
        """
        least = {id(stop): self._least(stop.every(), clock) for stop in self.stops}
        progress = min(least.values())
        for i, stock in enumerate(self.stocks):
            met = progress
            if i in self.routes_by:
                own = [s for s in self.routes_by[i] if not (s.builds or s.before or s.target is None)]
                others = [s for s in self.stops if s.route != i]
                built = [self._least_built(s, clock) for s in self.routes_by[i] if s.builds or s.before]
                met = min([clock + 1, *(least[id(s)] for s in (*own, *others)), *built])
            stock.purge(met, progress, met if self.core.inputs[i].table else clock + 1)

    def forget(self) -> None:
        """Everything is joined elsewhere from now on."""
        assert not any(stop.waiting for stop in self.stops), "nothing waits"
        self._site.arena.drop(f"{self._site.name}.")
        self.stocks = self._empty()
