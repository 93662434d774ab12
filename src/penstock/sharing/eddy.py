"""The eddy of a stream: every row is sorted once, for all queries that read the stream.

Paper      Madden et al. 2002, §2.1–2.2: lineage instead of copies, grouped filters, completion by bits.
Invariant  a row is in a query's part of the answer exactly if the query's predicate is TRUE for it; a row without
           queries left is dropped at once.
State      per query a bit; per subject a grouped filter; per disjunction over several subjects a plane of bits. Nothing of
           rows: those are in flight one batch at a time.
Cost       per row and operator visited a look-up and words / 4 instructions; per query nothing.

Rows go in groups whose lineage stays in the cache; a group is routed as one (`sharing.routing_policy`). Operators that call Python
functions come after all others, as they do in a query by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from penstock.errors import PenstockError
from penstock.kernels.filters import lineage as kernels
from penstock.kernels.filters.all_filters import BLOCK as ALL_BLOCK
from penstock.kernels.filters.all_filters import ask_all
from penstock.kernels.filters.bitmap_vectors import PLANES
from penstock.kernels.filters.layout import FIELDS, TABLE
from penstock.operators.expressions.compiled import RowError
from penstock.operators.expressions.evaluator import Evaluator, Predicate
from penstock.operators.grouped_filter.grouped_filter import GroupedFilter, bit_of
from penstock.plan.catalog import Function
from penstock.plan.expressions import Expression, columns
from penstock.plan.fingerprint import functions_in, predicate_text
from penstock.plan.normal_form import NEVER, Atom, Clause, clauses
from penstock.sharing.routed_rows import ALL, Said, Sorted
from penstock.sharing.routing_policy import MEMORY, USUAL, Ledger, Router
from penstock.state.strings import Strings
from penstock.types import sizes
from penstock.types.batch import Array, Batch, Column
from penstock.types.memory import room

CACHE = 1 << 19
"""Bytes of lineage of a group."""
MANY = 32
"""Words of lineage from which on it may pay to look only at those that have a bit."""
BLOCK = 1 << 8
"""Rows that pass all filters together: their lineage stays in the first-level cache."""
NEARLY_ALL = 0.9
"""Share of all visits that rows may make, from which on they ask all filters at once."""
WANTED = 0.5
"""Share of rows that somebody wants, from which on it is not asked row by row: so many would be kept anyway (`sharing.deferred_output`)."""
LOOK = 1 << 9
"""Rows that are routed nevertheless, of every four times `MEMORY`: whether it would pay again."""

Subject = tuple[str, tuple[int, ...]]
"""An expression as text, and the Python functions in it."""


@dataclass(slots=True)
class Member:
    """A query of the eddy, as far as it is one predicate over the stream."""

    bit: int
    predicate: Expression | None
    number: int
    """Of the queries that ever registered: bits are reused, numbers are not."""
    subjects: tuple[Subject, ...] = ()
    planes: int = 0
    lent: bool = False
    """Its bit is in a word that was taken (`take_word`)."""
    failed: PenstockError | None = None
    """Its predicate could not be computed for some row: it gets no more of them."""
    evaluator: Evaluator | None = None
    test: Predicate | None = None
    """By itself; made when it is needed."""


@dataclass(slots=True)
class Operator:
    """A grouped filter on its way through the eddy."""

    filter: GroupedFilter
    ledger: Ledger = field(default_factory=Ledger)


class Eddy:
    """Sorts the rows of one stream."""

    def __init__(
        self, strings: Strings, functions: Mapping[str, Function], routing: str = USUAL, seed: int = 0
    ) -> None:
        self._strings = strings
        self._functions = functions
        self._cheap, self._costly = Router(routing, seed), Router(routing, seed + 1)
        self._may_ask_all = routing == USUAL
        self.operators: dict[Subject, Operator] = {}
        self.members: dict[int, Member] = {}
        self._registered = 0
        """Queries so far."""
        self.words = 1
        self._free: list[int] = []
        self._spare = [0]
        """Words that are nobody's."""
        self.start = np.zeros(1, np.uint64)
        """The queries there are."""
        self.counts = np.zeros(64, np.int64)
        """By bit: rows so far, of whoever had the bit."""
        self._open: list[Array] = []
        """By plane: the queries that have no such disjunction."""
        self._read: tuple[int, ...] = ()
        self.rows = 0
        self.visits = 0
        self._scratch = np.empty(0, np.int32)
        self._share, self._wanted, self._unseen = 0.0, 0.0, 0
        """Of all visits that the last routed rows might have made, those they made; how many of these rows somebody wanted; and
        rows since."""

    # ------------------------------------------------------------------ who is there

    def enrol(self, predicate: Expression | None, bit: int | None = None) -> Member:
        """A query that from now on gets the rows for which its predicate is TRUE; `bit` of a word that was taken is its own."""
        lent = bit is not None
        if bit is None:
            bit = self._free.pop() if self._free else self._new_bit()
        self._registered += 1
        member = self.members[bit] = Member(bit, predicate, self._registered, lent=lent)
        asked = () if predicate is None else clauses(predicate)
        try:
            self._ask(member, asked)
        except PenstockError:
            self.leave(member)
            raise
        if NEVER not in asked:
            word, mark = bit_of(bit)
            self.start[word] |= mark
        return member

    def _new_bit(self) -> int:
        word = self.take_word()
        self._free += range(64 * word + 63, 64 * word, -1)
        return 64 * word

    def take_word(self) -> int:
        """A word of every row's lineage for somebody else to give out."""
        if not self._spare:
            self._spare += range(2 * self.words - 1, self.words - 1, -1)
            self._widen(2 * self.words)
        return self._spare.pop()

    def give_word(self, word: int) -> None:
        """It is nobody's again; its queries have left."""
        self._spare.append(word)

    def _widen(self, words: int) -> None:
        more = words - self.words
        self.words = words
        self.start = np.concatenate([self.start, np.zeros(more, np.uint64)])
        self.counts = np.concatenate([self.counts, np.zeros(64 * more, np.int64)])
        self._open = [np.concatenate([o, np.full(more, ALL)]) for o in self._open]
        for operator in self.operators.values():
            operator.filter.widen(words)

    def _ask(self, member: Member, asked: Sequence[Clause]) -> None:
        must: dict[Subject, list[Clause]] = {}
        may: dict[Subject, dict[int, Clause]] = {}
        subjects: dict[Subject, Expression] = {}
        for clause in asked:
            parts: dict[Subject, list[Atom]] = {}
            for atom in clause:
                key = self._key(atom.subject)
                subjects.setdefault(key, atom.subject)
                parts.setdefault(key, []).append(atom)
            if len(parts) == 1:
                must.setdefault(next(iter(parts)), []).append(clause)
            elif parts:
                for key, atoms in parts.items():
                    may.setdefault(key, {})[member.planes] = tuple(atoms)
                member.planes += 1
        word, mark = bit_of(member.bit)
        while len(self._open) < member.planes:
            self._open.append(np.full(self.words, ALL))
        for plane in self._open[: member.planes]:
            plane[word] &= ~mark
        for key, subject in subjects.items():
            operator = self.operators.get(key)
            if operator is None:
                evaluator = Evaluator(self._strings, self._functions)
                operator = Operator(GroupedFilter(subject, evaluator, self._strings, self.words))
                self.operators[key] = operator
            member.subjects += (key,)
            operator.filter.add(member.bit, must.get(key, []), may.get(key, {}))
            operator.ledger.predicates = operator.filter.predicates
        self._look_again()

    def _key(self, subject: Expression) -> Subject:
        text = predicate_text(subject)
        return text, functions_in(text, self._functions)

    def leave(self, member: Member) -> None:
        """The query is gone, and its bit may be another's."""
        word, mark = bit_of(member.bit)
        self.start[word] &= ~mark
        for plane in self._open[: member.planes]:
            plane[word] |= mark
        while self._open and (self._open[-1] == ALL).all():
            self._open.pop()
        for subject in member.subjects:
            operator = self.operators[subject]
            operator.filter.remove(member.bit)
            operator.ledger.predicates = operator.filter.predicates
            if not operator.filter.asked:
                operator.filter.release()
                del self.operators[subject]
            elif operator.filter.wasteful:
                operator.filter.merge()
        if member.evaluator is not None:
            member.evaluator.release()
        del self.members[member.bit]
        if not member.lent:
            self._free.append(member.bit)
        self._look_again()

    def close(self) -> None:
        """Everybody is gone."""
        for member in list(self.members.values()):
            self.leave(member)

    def _look_again(self) -> None:
        self._read = tuple(
            sorted({c.index for o in self.operators.values() for c in columns(o.filter.subject)})
        )

    # ------------------------------------------------------------------ rows

    def sort(self, batch: Batch, *, keep: bool) -> tuple[Sorted, list[Member]]:
        """Find out who wants which rows, and which queries failed in doing so."""
        if len(self.members) == 1 and not any(o.filter.costly for o in self.operators.values()):
            return self._only(batch, keep), []
        if not self._open and all(o.filter.plain for o in self.operators.values()):
            return self._through(batch, keep), []
        try:
            return self._sorted(batch, self.start, keep), []
        except RowError:
            return self._apart(batch)

    def said(self, batch: Batch) -> list[Said]:
        """By filter: what it says of rows; nothing if filters do not say it all."""
        filters = [o.filter for o in self.operators.values()]
        if self._open or not all(f.plain for f in filters):
            return []
        return [Said(f.ids(batch.columns, len(batch)), f.table, self.start) for f in filters]

    def again(self) -> Callable[[Batch], Sorted]:
        """Sorts rows of this step (which are counted) later, for the queries that are registered now."""
        return partial(self._again, self._registered)

    def _again(self, registered: int, batch: Batch) -> Sorted:
        """Later queries see none of the rows: their functions may fail on them."""
        before = (self.counts.copy(), self.rows, self.visits, self.start.copy())
        for member in self.members.values():
            if member.number > registered:
                word, mark = bit_of(member.bit)
                self.start[word] &= ~mark
        try:
            made, _ = self.sort(batch, keep=True)
        finally:
            self.counts, self.rows, self.visits, self.start = before
        return made

    def _only(self, batch: Batch, keep: bool) -> Sorted:
        """There is one query: it needs no index of its predicates."""
        (member,) = self.members.values()
        word, mark = bit_of(member.bit)
        n, counts = len(batch), np.zeros(64 * self.words, np.int64)
        if not self.start[word] & mark:
            rows = np.empty(0, np.int32)
        elif member.predicate is None:
            rows = np.arange(n, dtype=np.int32)
        else:
            rows = np.flatnonzero(self._alone(member)(batch.columns, n)).astype(np.int32)
        counts[member.bit] = len(rows)
        lineage = None
        if keep:
            lineage = np.zeros((n, self.words), np.uint64)
            lineage[rows, word] = mark
        for operator in self.operators.values():
            operator.ledger.note(n, n - len(rows), (0, 0, 0), 0)
        self._count(n, n * len(self.operators), counts)
        return Sorted(batch, rows, counts, lineage)

    def _through(self, batch: Batch, keep: bool) -> Sorted:
        """All filters are on columns and nothing can fail: rows pass them all in one go."""
        n, words, group = len(batch), self.words, sizes.current.routed_rows
        operators = list(self.operators.values())
        block = max(8, min(BLOCK, CACHE // (128 * words)))
        lineage = room(((n if keep else block) + 8, words), np.uint64)
        rows, counts = self._numbers(n, keep), np.zeros(64 * words, np.int64)
        stats = np.zeros((len(operators), 5), np.int64)
        opened = [o.filter.laid_open(batch.columns, n) for o in operators]
        filters = np.array([told for told, _ in opened], np.int64).reshape(-1, FIELDS)
        first = None if keep or words < MANY else self._few(operators)
        routed = n if first is not None else self._to_route(n, keep)
        # In C order whatever the policy: the kernels are compiled for it.
        orders = np.ascontiguousarray(self._cheap.orders([o.ledger for o in operators], -(-routed // group)))
        planes = np.empty((PLANES + 1, words), np.uint64)
        began = time.perf_counter_ns()
        alive = 0
        if not self.start.any():
            routed = n
        elif first is not None:
            number, (starts, listed) = first
            alive = kernels.pass_few(
                filters, number, starts, listed, orders, group, self.start, rows, stats,
                np.empty(words, np.int32), np.empty(words, np.uint64), counts,
            )  # fmt: skip
        else:
            alive = kernels.pass_through(
                filters, orders, group, self.start, lineage, keep, block, rows[:routed], stats, planes, counts
            )
        took = time.perf_counter_ns() - began
        visits = int(stats[:, 0].sum())
        each = took / max(visits, 1)
        for operator, (visited, dropped, *sample) in zip(operators, stats.tolist(), strict=True):
            operator.ledger.note(visited, dropped, sample, int(each * visited))
            operator.ledger.fade(routed)
        if routed:
            self._share, self._unseen = visits / max(routed * len(operators), 1), 0
            self._wanted = alive / routed
        if routed < n:
            at, flags = np.empty((len(filters), ALL_BLOCK), np.int32), np.empty(ALL_BLOCK, np.uint8)
            alive = ask_all(
                filters, filters[:, TABLE].copy(), n, routed, self.start, lineage, keep, rows, alive,
                at, flags, planes, counts,
            )  # fmt: skip
            for operator in operators:
                operator.ledger.pass_on(n - routed)
            visits += (n - routed) * len(operators)
            self._unseen += n - routed
        self._count(n, visits, counts)
        return Sorted(batch, rows[:alive], counts, lineage[:n] if keep else None)

    def _numbers(self, rows: int, keep: bool) -> Array:
        """Room for row numbers; if nobody keeps them, that of the last time."""
        if keep:
            return room(rows, np.int32)
        if len(self._scratch) < rows:
            self._scratch = room(rows, np.int32)
        return self._scratch[:rows]

    def _to_route(self, rows: int, keep: bool) -> int:
        """How many rows, the first ones, go from filter to filter; the others ask all at once."""
        if self._share < NEARLY_ALL or not (self.operators and self._may_ask_all):
            return rows
        if self._wanted < WANTED and not keep:
            return rows
        return min(rows, LOOK) if self._unseen >= 4 * MEMORY else 0

    def _few(self, operators: Sequence[Operator]) -> tuple[int, tuple[Array, Array]] | None:
        """The filter that leaves fewest words, if that is few."""
        found = [(number, o.filter.few(self.start)) for number, o in enumerate(operators)]
        some = [(number, few) for number, few in found if few is not None]
        return min(some, key=lambda one: len(one[1][1]) / len(one[1][0]), default=None)

    def _count(self, rows: int, visits: int, counts: Array) -> None:
        self.rows += rows
        self.visits += visits
        self.counts += counts

    def _sorted(self, batch: Batch, start: Array, keep: bool) -> Sorted:
        n, words = len(batch), self.words
        size = max(64, min(sizes.current.routed_rows, CACHE // (8 * words)))
        held = room((n if keep else min(n, size), words), np.uint64)
        planes = [np.empty((min(n, size), words), np.uint64) for _ in self._open]
        scratch, counts = np.empty((PLANES + 1, words), np.uint64), np.zeros(64 * words, np.int64)
        codes, alive = np.zeros(min(n, size), np.int32), []
        read = {i: batch.columns[i] for i in self._read}
        for column in read.values():
            _ = column.values
        row = list(batch.columns)
        route = self._routes(-(-n // size))
        for begin in range(0, n, size):
            stop = min(begin + size, n)
            for i, column in read.items():
                row[i] = column.slice(begin, stop)
            lineage = held[begin:stop] if keep else held[: stop - begin]
            here = [p[: stop - begin] for p in planes]
            rows = self._group(route[begin // size], row, start, lineage, here, codes)
            kernels.tally(lineage, rows, scratch, counts)
            alive.append(rows + np.int32(begin))
        self._count(n, 0, counts)
        for operator in self.operators.values():
            operator.ledger.fade(n)
        rows = np.concatenate(alive) if alive else np.empty(0, np.int32)
        return Sorted(batch, rows, counts, held if keep else None)

    def _group(
        self,
        route: Sequence[Operator],
        columns: Sequence[Column],
        start: Array,
        lineage: Array,
        planes: Sequence[Array],
        codes: Array,
    ) -> Array:
        """The rows of a group that somebody wants."""
        if not start.any():
            return np.empty(0, np.int32)
        rows, fresh = np.arange(len(lineage), dtype=np.int32), True
        for plane, closed in zip(planes, self._open, strict=True):
            plane[:] = closed
        for operator in route:
            if not len(rows):
                break
            if not (operator.filter.mask & start).any():
                continue  # nobody asks there who is in; a function would be called for all the same
            began = time.perf_counter_ns()
            visited, left, *sample = operator.filter.visit(columns, rows, fresh, start, lineage, codes)
            operator.ledger.note(visited, len(rows) - left, sample, time.perf_counter_ns() - began)
            self.visits += visited
            rows, fresh = rows[:left], False
            for number, table in operator.filter.planes.items():
                kernels.permit(table, codes, rows, planes[number])
        if fresh:
            lineage[:] = start
        for plane in planes:
            rows = rows[: kernels.require(plane, rows, lineage)]
        return rows

    def _routes(self, groups: int) -> list[list[Operator]]:
        """For every group operators in the order of their visits."""
        made: list[list[Operator]] = [[] for _ in range(groups)]
        for costly, router in ((False, self._cheap), (True, self._costly)):
            operators = [o for o in self.operators.values() if o.filter.costly is costly]
            for route, order in zip(
                made, router.orders([o.ledger for o in operators], groups).tolist(), strict=True
            ):
                route += [operators[i] for i in order]
        return made

    # ------------------------------------------------------------------ functions that fail

    def _apart(self, batch: Batch) -> tuple[Sorted, list[Member]]:
        """A Python function failed on some row. Who calls one is sorted by itself: whether a function sees a row must not
        hang on what others ask."""
        start, apart = self.start.copy(), []
        for member in self.members.values():
            word, mark = bit_of(member.bit)
            if start[word] & mark and any(self.operators[s].filter.costly for s in member.subjects):
                start[word] &= ~mark
                apart.append(member)
        made = self._sorted(batch, start, keep=True)
        assert made.lineage is not None
        dead = np.ones(len(batch), np.bool_)
        dead[made.rows] = False
        made.lineage[dead] = 0
        failed = []
        for member in apart:
            word, mark = bit_of(member.bit)
            try:
                found = self._by_itself(member, batch)
            except RowError as error:
                error.note_time(batch.ts)
                member.failed = error
                self.start[word] &= ~mark
                failed.append(member)
                continue
            made.lineage[found, word] |= mark
            made.counts[member.bit] += len(found)
            self.counts[member.bit] += len(found)
        made.rows = np.flatnonzero(made.lineage.any(axis=1)).astype(np.int32)
        return made, failed

    def _by_itself(self, member: Member, batch: Batch) -> Array:
        """A query's rows as if nobody else were there: sorted, and only if that fails by its predicate as it is written."""
        word, mark = bit_of(member.bit)
        only = np.zeros(self.words, np.uint64)
        only[word] = mark
        before = (self.counts.copy(), self.rows, self.visits)
        try:
            return self._sorted(batch, only, keep=True).split(only).of(member.bit)
        except RowError:
            return np.flatnonzero(self._alone(member)(batch.columns, len(batch)))
        finally:
            self.counts, self.rows, self.visits = before

    def _alone(self, member: Member) -> Predicate:
        if member.test is None:
            assert member.predicate is not None
            member.evaluator = Evaluator(self._strings, self._functions)
            member.test = member.evaluator.predicate(member.predicate)
        return member.test

    @property
    def size_bytes(self) -> int:
        """What all grouped filters take."""
        return sum(o.filter.size_bytes for o in self.operators.values()) + self.counts.nbytes
