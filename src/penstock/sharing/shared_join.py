"""Where streams meet: one SteM per stream and an index per join attribute, for all joins of all queries.

Paper      Madden et al. 2002, §2.3: SteMs, build before probe, virtual sources, windows per query over one SteM.
Invariant  every query gets each of its results once, made by the last of its rows in (ts, role) order, exactly if its rows
           came after the query, satisfy its predicates and are in its windows together. No intermediate result is kept.
State      per stream the rows that some join still wants, once, for the longest window; per row and role the number of
           its lineage (`state.lineages`).
Cost       per row a walk of the SteMs it has partners in, together for all queries; a new query: its bit. A query that
           brings a new stream, column or join attribute has the rows of the streams laid out anew.

A *role* is a stream as the k-th that a query reads of it; a *virtual source* is a set of roles: its tuples are results
of the queries over exactly these.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from penstock.errors import StateError
from penstock.kernels.filters import lineage as kernels
from penstock.kernels.filters.bitmap_vectors import PLANES
from penstock.kernels.join import chains, shared_probe
from penstock.operators.grouped_filter.grouped_filter import bit_of
from penstock.operators.join.fifo_join import Kept
from penstock.plan.catalog import Function
from penstock.plan.fingerprint import predicate_text
from penstock.sharing.build_phase import Events, admitted, arriving
from penstock.sharing.eddy import Eddy
from penstock.sharing.join_catalog import FAR, Equality, Input, Party, Role, Stem
from penstock.sharing.join_registry import Parties
from penstock.sharing.probe_trees import Hop, Shape, Trees, trees
from penstock.sharing.routed_rows import Sorted
from penstock.sharing.stem_store import Block
from penstock.sharing.window_masks import Windows, windows
from penstock.state.arena import Arena
from penstock.state.lineages import EVERYBODY, Lineages
from penstock.state.strings import Strings
from penstock.types import limits, sizes
from penstock.types.batch import ABSENT, Array, Batch, Column
from penstock.types.memory import joined, room

FEWEST_RESULTS = 1024
"""Results of a step for which there is room at first."""


class Confluence:
    """All joins of an engine that can be walked in shared SteMs."""

    def __init__(
        self, strings: Strings, functions: Mapping[str, Function], eddy: Callable[[str], Eddy]
    ) -> None:
        self._begin: Callable[[], Parties] = partial(Parties, strings, functions, eddy)
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Nobody is there: keep nothing."""
        self.who = self._begin()
        self._met: dict[Hop, float] = {}
        self._trees: Trees | None = None
        self._windows: Windows | None = None
        self._where = np.empty((0, 0), np.int32)
        self._room = FEWEST_RESULTS
        self._many = sizes.current.lineages
        """Lineages from which on those that no row has are let go of."""
        self._entered = 0
        """Rows since that was done."""
        self._stopped: set[int] = set()
        """Bits of joins that made too many results in a step: they make none from then on."""
        self.overrun: list[Party] = []
        """Those that did so in the last step."""
        self.visits = 0

    # ------------------------------------------------------------------ who is there

    @property
    def words(self) -> int:
        """Of a bitmap."""
        return self.who.words

    @property
    def parties(self) -> Mapping[int, Party]:
        """Joins by their bits."""
        return self.who.by_bit

    @property
    def roles(self) -> Sequence[Role]:
        return self.who.roles

    @property
    def stems(self) -> Mapping[str, Stem]:
        """By stream."""
        return self.who.stems

    @property
    def sources(self) -> Mapping[tuple[int, ...], int]:
        """Virtual sources by their roles."""
        return self.who.sources

    @property
    def counts(self) -> Sequence[Array]:
        """By virtual source and bit: results so far."""
        return self.who.counts

    @property
    def lineages(self) -> Lineages:
        return self.who.lineages

    def join(self, inputs: Sequence[Input], equalities: Sequence[Equality]) -> Party:
        """A query's join from now on."""
        self._trees = self._windows = None
        return self.who.join(inputs, equalities)

    def leave(self, party: Party) -> None:
        """A query's join is gone."""
        self._trees = self._windows = None
        self._stopped.discard(party.bit)
        self.who.leave(party)
        if not self.parties:
            self.who.release()
            self._begin_anew()

    def adopt(self, party: Party, kept: Sequence[Kept], now: int) -> None:
        """Go on with the rows that a join by itself has kept: only its query wants them."""
        self.who.bed.lay_out()
        number = int(self.lineages.numbers(self.who.mask([party.bit]).reshape(1, -1))[0])
        for role, one, rows in zip(party.roles, party.inputs, kept, strict=True):
            n = len(rows.exp)
            if not n:
                continue
            # When a row came matters to no window that never ends.
            ts = rows.exp - one.window if one.window < FAR else np.full(n, now)
            held = {predicate_text(key): column for key, column in rows.texts.items()}
            keys = {tuple(predicate_text(k) for k in key): words_ for key, words_ in rows.keys.items()}
            texts = {key: [held[text] for text in key if text in held] for key in keys}
            block = Block(ts, keys, rows.columns, texts, {role: np.full((n, 1), number)})
            self.who.bed.put(self.stems[one.stream], block)

    # ------------------------------------------------------------------ plans

    def _ready(self) -> None:
        """Before a step: hold what joins ask for."""
        self.who.fit()
        if self.who.bed.stale:
            self.who.bed.lay_out()
            self._trees = None

    def _plan(self) -> Trees:
        """How rows walk."""
        if self._trees is None:
            running = [party for bit, party in self.parties.items() if bit not in self._stopped]
            self._trees = self._grow_trees(running)
        return self._trees

    def _grow_trees(self, running: Sequence[Party]) -> Trees:
        stems = list(self.stems)
        homes = [stems.index(role.stream) for role in self.roles]
        shapes: dict[Shape, Array] = {}
        for party in running:
            mask = shapes.setdefault(party.shape, np.zeros(self.words, np.uint64))
            word, bit = bit_of(party.bit)
            mask[word] |= bit
        first = self.who.bed.rows.first_index
        sides = {side for shape in shapes for hop in shape.hops for side in hop}
        indexes = {side: int(first[homes[side.role]]) + side.index for side in sides}
        members = np.array(list(shapes.values()), np.uint64).reshape(-1, self.words)
        return trees(list(shapes), members, self.sources, homes, indexes, self._met)

    # ------------------------------------------------------------------ rows

    def step(self, found: Mapping[str, Sorted], now: int, streams: Collection[str]) -> dict[int, Sorted]:
        """Rows of a step, sorted by their eddies → tuples by virtual source, and the queries that want each.

        `streams`: those whose clock is `now`; others stand elsewhere, and no join connects them to these.
        """
        self._ready()
        self.overrun = []
        if self._windows is None:
            self._windows = windows(self.roles, list(self.stems), self.words)
        rows = [
            (edge, stem, some)
            for edge, stem in enumerate(self.stems.values())
            for some in [arriving(self.who, stem, found.get(stem.stream))]
            if some is not None
        ]
        made: dict[int, Sorted] = {}
        if rows:
            made = self._tuples(self._walked(admitted(self.who, rows), self._windows))
            self._entered += sum(len(some.batch) for _, _, some in rows)
        self._expire(now, self._windows.sight, streams)
        return made

    def _walked(self, events: Events, held: Windows) -> Met:
        parts: list[Met] = []
        done = 0
        while done < len(events.times):
            done = self._walk(self._plan(), events, held, done, parts)
        return parts[0] if len(parts) == 1 else Met.joined(parts)

    def _walk(self, plan: Trees, events: Events, held: Windows, done: int, parts: list[Met]) -> int:
        """Let events walk from `done` on, until all have or a join is stopped; returns how many have. Results are added to `parts`."""
        stats, first, total = np.zeros((len(plan.nodes), 2), np.int64), done, len(events.times)
        while done < total:
            size, before = self._room, done
            if self._where.shape != (len(self.roles) + 1, size):
                self._where = room((len(self.roles) + 1, size), np.int32)
            # Who makes rows of where they lie does so in this step: others may lie there in the next.
            where = room(self._where.shape, np.int32) if parts else self._where
            out = Met(room(size, np.int64), where[0], where[1:], room((size, self.words), np.uint64))
            done, made = self._met_by(plan, events, held, done, stats, out)
            found = out.first(made)
            found.source[:] = plan.source[found.source]
            parts.append(found)
            if done == before or (done < total and made > size // 2):
                self._room *= 2
            over = self._over(parts)
            if done == before and size >= limits.RESULT_ROWS:
                over += self._driven(events, held, done, out)
            if over:
                self._stop(over, parts)
                break
        self._learn(plan, stats)
        self.visits += done - first + int(stats[:, 1].sum())
        return done

    def _met_by(
        self, plan: Trees, events: Events, held: Windows, done: int, stats: Array, out: Met
    ) -> tuple[int, int]:
        """Let events walk from `done` on while their results fit; returns how many have, and the results."""
        rows = self.who.bed.rows
        home = np.array([self.who.bed.edge(role.stream) for role in self.roles], np.int64)
        each = [self.who.bed.places(role.stream, role.number) for role in self.roles]
        parts_of = np.cumsum([0, *map(len, each)])
        places = np.array([place for some in each for place in some], np.int64)
        given = (
            done, events.times, events.roles, events.slots, events.lines, events.entering, events.lineage,
            rows.edges, rows.indexes, rows.first_index, rows.rows, rows.halves, rows.head, home, parts_of, places, held.sight,
        )  # fmt: skip
        spans = held.firsts, held.lengths, held.masks, self.lineages.known
        made_of = out.ts, out.source, out.slots, out.lineage
        walks = plan.nodes, plan.roots, plan.need
        found: tuple[int, int]
        if plan.is_pairs:
            found = shared_probe.meet_pairs(*given, *walks, *spans, stats, *made_of)
        else:
            work = np.empty((4, max(len(self.roles), plan.depth + 1)), np.int64)
            kept = np.empty((plan.depth + 1, self.words), np.uint64)
            found = shared_probe.meet(
                *given, *walks, plan.done, plan.checks, *spans, work, kept, stats, *made_of
            )
        return found

    # ------------------------------------------------------------------ too many results

    def _over(self, parts: Sequence[Met]) -> list[Party]:
        """Joins that have made more results in this step than one may."""
        if sum(len(part.ts) for part in parts) <= limits.RESULT_ROWS:
            return []
        counts = np.sum([self._counts(part.lineage) for part in parts], axis=0)
        return [party for bit, party in self.parties.items() if counts[bit] > limits.RESULT_ROWS]

    def _driven(self, events: Events, held: Windows, at: int, out: Met) -> list[Party]:
        """Joins of which a single event makes more results than fit."""
        times, roles, slots, lines = (
            part[at : at + 1] for part in (events.times, events.roles, events.slots, events.lines)
        )
        alone = Events(times, roles, slots, lines, np.zeros(1, np.bool_), events.lineage)
        over = []
        for bit, party in self.parties.items():
            if bit not in self._stopped and events.roles[at] in party.roles:
                plan = self._grow_trees([party])
                stats = np.zeros((len(plan.nodes), 2), np.int64)
                if self._met_by(plan, alone, held, 0, stats, out)[0] == 0:
                    over.append(party)
        return over

    def _stop(self, over: Sequence[Party], parts: list[Met]) -> None:
        """Let joins make no results any more, and forget those of this step that no other wants."""
        self._stopped.update(party.bit for party in over)
        self.overrun += over
        self._trees = None
        mask = ~self.who.mask(party.bit for party in over)
        for n, part in enumerate(parts):
            np.bitwise_and(part.lineage, mask, out=part.lineage)
            parts[n] = part.at(np.flatnonzero(part.lineage.any(axis=1)))

    def _counts(self, lineage: Array) -> Array:
        """By bit: results."""
        counts = np.zeros(64 * self.words, np.int64)
        every = np.arange(len(lineage), dtype=np.int32)
        kernels.tally(lineage, every, np.empty((PLANES + 1, self.words), np.uint64), counts)
        return counts

    def _learn(self, plan: Trees, stats: Array) -> None:
        """Partners met per probe, smoothed; walks follow when one has moved by a tenth."""
        for hop, (probes, met) in zip(plan.hops, stats.tolist(), strict=False):
            if probes:
                old, new = self._met.get(hop), met / probes
                if old is not None:
                    new = old + min(1.0, probes / 4096) * (new - old)
                self._met[hop] = new
                if old is None or abs(new - old) > 0.1 * abs(old):
                    self._trees = None

    # ------------------------------------------------------------------ tuples

    def _tuples(self, met: Met) -> dict[int, Sorted]:
        made = {}
        source, rows = met.source, self.who.bed.rows
        for roles, number in self.sources.items():
            picked = np.flatnonzero(source == number)
            if not len(picked):
                continue
            some = met if len(picked) == len(source) else met.at(picked)
            columns: list[Column] = []
            for role in roles:
                stem = self.stems[self.roles[role].stream]
                edge = self.who.bed.edge(stem.stream)
                slots = some.slots[role]
                own: list[Column] = [ABSENT] * len(stem.schema)
                for i, column in zip(stem.stored, rows.frames[edge].at(slots), strict=False):
                    own[i] = column
                timed = any(window != FAR for window in self.roles[role].windows.values())
                columns += [Column(rows.table(edge)[slots, 0]) if timed else ABSENT, *own]
            counts, every = self._counts(some.lineage), np.arange(len(some.ts), dtype=np.int32)
            self.who.counts[number] += counts
            made[number] = Sorted(Batch(some.ts, some.ts, tuple(columns)), every, counts, some.lineage)
        return made

    def _expire(self, now: int, sight: Array, streams: Collection[str]) -> None:
        """Rows that no window reaches are gone; numbers of lineages that no row has, too."""
        for stream, far in zip(self.stems, sight.tolist(), strict=True):
            if stream in streams:
                self.who.bed.expire(stream, now - far)
        is_other = self._entered > len(self.who.bed.rows)  # next to no row is left of those that were there
        if len(self.lineages) > (min(sizes.current.lineages, self._many) if is_other else self._many):
            self._forget_lineages()

    def shrink(self, coming: int) -> None:
        """Give back room that neither the rows of the SteMs nor so many new ones need. Between steps."""
        if self.who.bed.rows.shrink(coming):
            self._where, self._room = np.empty((0, 0), np.int32), FEWEST_RESULTS

    def _forget_lineages(self) -> None:
        edges = self.who.bed.rows.edges[:, [chains.TAIL, chains.USED]].tolist()
        notes = [
            note
            for stream, (tail, used) in zip(self.stems, edges, strict=True)
            for parts in self.who.bed.notes(stream, tail, used)
            for note in parts
        ]
        has = np.zeros(len(self.lineages), np.bool_)
        for note in notes:
            has[note] = True
        new = self.lineages.compact(np.flatnonzero(has))
        for note in notes:
            note[:] = new[note]
        self._many = max(sizes.current.lineages, 2 * len(self.lineages))
        self._entered = 0

    # ------------------------------------------------------------------ leaving and coming back

    def save(self, arena: Arena) -> dict[str, Any]:
        """Lay the rows into an arena; how they lie there."""
        arena.keep("known", self.lineages.known[: len(self.lineages)].view(np.int64).copy())
        return {
            "words": self.words,
            "roles": [list(key) for key in self.who.role_of],
            "streams": self.who.bed.save(arena, lambda role: bool(self.roles[role].windows)),
        }

    def take_up(self, arena: Arena, told: dict[str, Any], bits: Mapping[int, int]) -> None:
        """Hold what was saved by another; `bits`: what a query's bit was, and is now. The queries are there already."""
        known = self._known_again(arena, told["words"], bits)
        roles = [self.who.role_of.get((stream, k), -1) for stream, k in told["roles"]]
        self.who.bed.take_up(arena, told["streams"], known, roles)

    def _known_again(self, arena: Arena, words_: int, bits: Mapping[int, int]) -> Array:
        """Bitmaps with their bits where they are now; the number now of every number then."""
        known = arena.taken("known", np.int64, (1, words_))
        old = np.unpackbits(known.view(np.uint8), axis=1, bitorder="little")
        new = np.zeros((len(known), 64 * self.words), np.uint8)
        for was, now in bits.items():
            if not 0 <= was < old.shape[1]:
                raise StateError(f"there is no bit {was} in the bitmaps")
            new[:, now] = old[:, was]
        bitmaps = np.packbits(new, axis=1, bitorder="little").view(np.uint64)
        numbers = np.zeros(len(known), np.int64)
        numbers[EVERYBODY : EVERYBODY + 1] = EVERYBODY
        bitmaps[EVERYBODY : EVERYBODY + 1] = 0
        some = np.flatnonzero(bitmaps.any(axis=1))
        if len(some):
            numbers[some] = self.lineages.numbers(np.ascontiguousarray(bitmaps[some]))
        return numbers

    # ------------------------------------------------------------------ memory

    @property
    def sizes(self) -> dict[str, int]:
        """Rows held, by stream."""
        return dict(zip(self.stems, self.who.bed.rows.sizes, strict=False))

    @property
    def stem_bytes(self) -> dict[str, int]:
        """What their rows and indexes take, by stream."""
        rows = self.who.bed.rows
        return {
            stream: rows.bytes_of(edge) for edge, stream in enumerate(self.stems) if edge < len(rows.frames)
        }

    @property
    def size_bytes(self) -> int:
        return self.who.bed.rows.arena.size_bytes + self.lineages.size_bytes

    def mark_strings(self, mark: Callable[[Array], None]) -> None:
        self.who.bed.rows.arena.mark_strings(mark)


@dataclass(slots=True)
class Met:
    """Tuples of all virtual sources."""

    ts: Array
    source: Array
    """Which virtual source; while they are made, at which node of the plan."""
    slots: Array
    lineage: Array

    def first(self, n: int) -> Met:
        return Met(self.ts[:n], self.source[:n], self.slots[:, :n], self.lineage[:n])

    def at(self, rows: Array) -> Met:
        return Met(self.ts[rows], self.source[rows], self.slots[:, rows], self.lineage[rows])

    @staticmethod
    def joined(parts: Sequence[Met]) -> Met:
        return Met(
            joined([p.ts for p in parts]),
            joined([p.source for p in parts]),
            np.concatenate([p.slots for p in parts], axis=1),
            np.concatenate([p.lineage for p in parts]),
        )
