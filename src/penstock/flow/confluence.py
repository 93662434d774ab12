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

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.data.batch import Array, Batch, Column
from penstock.data.memory import joined, room
from penstock.data.types import Type
from penstock.errors import StateError
from penstock.flow.bed import Bed, Block
from penstock.flow.eddy import Eddy, Member, Sorted
from penstock.flow.stem import FAR, Attribute, Equality, Input, Key, Party, Role, Stem
from penstock.flow.walks import Hop, Shape, Side, Trees, trees
from penstock.kernels import chains, meeting
from penstock.kernels import lineage as kernels
from penstock.operators.conditions import key_words
from penstock.operators.contract import ABSENT
from penstock.operators.evaluate import Evaluator
from penstock.operators.fifo_join import Kept
from penstock.operators.grouped import bit_of
from penstock.plan.catalog import Function
from penstock.plan.expressions import Expression
from penstock.plan.fingerprint import predicate_text
from penstock.state import words
from penstock.state.arena import Arena
from penstock.state.lineages import Lineages
from penstock.state.strings import Strings


class Confluence:
    """All joins of an engine that can be walked in shared SteMs."""

    def __init__(
        self, strings: Strings, functions: Mapping[str, Function], eddy: Callable[[str], Eddy]
    ) -> None:
        self._strings = strings
        self._functions = functions
        self._eddy = eddy
        self.words = 1
        self._free = list(range(63, -1, -1))
        self._left: list[int] = []
        """Bits of queries that are gone: given out again once no row remembers them."""
        self.parties: dict[int, Party] = {}
        self.roles: list[Role] = []
        self._role_of: dict[tuple[str, int], int] = {}
        self.stems: dict[str, Stem] = {}
        self.lineages = Lineages(1)
        self._bed = Bed(self.stems)
        self.sources: dict[tuple[int, ...], int] = {}
        """Virtual sources by their roles."""
        self.counts: list[Array] = []
        """By virtual source and bit: results so far."""
        self._met: dict[Hop, float] = {}
        self._trees: Trees | None = None
        self._windows: tuple[Array, Array, Array, Array] | None = None
        self._room = 1024
        self._many = 1 << 12
        """Lineages from which on those that no row has are let go of."""
        self.visits = 0

    # ------------------------------------------------------------------ who is there

    def join(self, inputs: Sequence[Input], equalities: Sequence[Equality]) -> Party:
        """A query's join from now on."""
        seen: dict[str, int] = {}
        roles = []
        for one in inputs:
            roles.append(self._role(one, seen.get(one.stream, 0)))
            seen[one.stream] = seen.get(one.stream, 0) + 1
        bit = self._bit()
        members: list[Member] = []
        for role, one in zip(roles, inputs, strict=True):
            word, within = self.roles[role].words[bit >> 6], bit & 63
            members.append(self._eddy(one.stream).enrol(one.predicate, 64 * word + within))
            self.roles[role].windows[bit] = one.window
            stem = self.stems[one.stream]
            for column in one.columns:
                if column not in stem.columns:
                    self._bed.stale = True
                stem.columns[column] = stem.columns.get(column, 0) + 1
        hops: list[Hop] = []
        attributes: list[tuple[str, Key, int]] = []
        for equality in equalities:
            sides = [
                self._side(inputs[i].stream, roles[i], keys, bit, attributes)
                for i, keys in (
                    (equality.left, equality.left_keys),
                    (equality.right, equality.right_keys),
                )
            ]
            hops += [(sides[0], sides[1]), (sides[1], sides[0])]
        shape = Shape(tuple(sorted(roles)), tuple(dict.fromkeys(sorted(hops, key=repr))))
        if shape.roles not in self.sources:
            self.sources[shape.roles] = len(self.sources)
            self.counts.append(np.zeros(64 * self.words, np.int64))
        party = Party(bit, shape, tuple(roles), tuple(inputs), members, attributes)
        self.parties[bit] = party
        self._trees = self._windows = None
        return party

    def leave(self, party: Party) -> None:
        """A query's join is gone."""
        word, mark = bit_of(party.bit)
        self.lineages.clear(word, mark)
        for role, one, member in zip(party.roles, party.inputs, party.members, strict=True):
            self._eddy(one.stream).leave(member)
            del self.roles[role].windows[party.bit]
            columns = self.stems[one.stream].columns
            for column in one.columns:
                columns[column] -= 1
        for stream, key, role in party.attributes:
            self.stems[stream].attributes[key].uses[role].discard(party.bit)
        del self.parties[party.bit]
        self._left.append(party.bit)
        self._trees = self._windows = None
        if not self.parties:
            self._begin_anew()

    def _begin_anew(self) -> None:
        """Nobody is there: keep nothing."""
        for stem in self.stems.values():
            for attribute in stem.attributes.values():
                attribute.evaluator.release()
        for role in self.roles:
            for word in role.words:
                self._eddy(role.stream).give_word(word)
        self.__init__(self._strings, self._functions, self._eddy)  # type: ignore[misc]

    def _role(self, one: Input, occurrence: int) -> int:
        found = self._role_of.get((one.stream, occurrence))
        if found is None:
            found = self._role_of[one.stream, occurrence] = len(self.roles)
            eddy = self._eddy(one.stream)
            self.roles.append(Role(found, one.stream, [eddy.take_word() for _ in range(self.words)]))
            self.stems.setdefault(one.stream, Stem(one.stream, one.schema)).roles.append(found)
            self._bed.stale = True
        return found

    def _bit(self) -> int:
        if not self._free:
            if len(self._left) >= 32 * self.words:
                self._free, self._left = self._left, []
                self.lineages.forget()
            else:
                self._widen()
        return self._free.pop()

    def _widen(self) -> None:
        more = self.words
        for role in self.roles:
            role.words += [self._eddy(role.stream).take_word() for _ in range(more)]
        self._free += range(64 * (self.words + more) - 1, 64 * self.words - 1, -1)
        self.words += more
        self.lineages.widen(self.words)
        self.counts = [np.concatenate([c, np.zeros(64 * more, np.int64)]) for c in self.counts]
        self._trees = self._windows = None

    def _side(
        self,
        stream: str,
        role: int,
        keys: tuple[Expression, ...],
        bit: int,
        attributes: list[tuple[str, Key, int]],
    ) -> Side:
        stem = self.stems[stream]
        key = tuple(predicate_text(k) for k in keys)
        attribute = stem.attributes.get(key)
        if attribute is None:
            evaluator = Evaluator(self._strings, self._functions)
            attribute = Attribute(keys, [evaluator.compile(k) for k in keys], evaluator)
            stem.attributes[key] = attribute
            self._bed.stale = True
        attribute.uses.setdefault(role, set()).add(bit)
        attributes.append((stream, key, role))
        return Side(role, list(stem.attributes).index(key))

    def adopt(self, party: Party, kept: Sequence[Kept], now: int) -> None:
        """Go on with the rows that a join by itself has kept: only its query wants them."""
        self._bed.lay_out()
        number = int(self.lineages.numbers(self._mask([party.bit]).reshape(1, -1))[0])
        for role, one, rows in zip(party.roles, party.inputs, kept, strict=True):
            n = len(rows.exp)
            if not n:
                continue
            # When a row came matters to no window that never ends.
            ts = rows.exp - one.window if one.window < FAR else np.full(n, now)
            held = {predicate_text(key): column for key, column in rows.texts.items()}
            keys = {tuple(predicate_text(k) for k in key): words_ for key, words_ in rows.keys.items()}
            texts = {key: [held[text] for text in key if text in held] for key in keys}
            block = Block(ts, keys, rows.columns, texts, {role: np.full(n, number)})
            self._bed.put(self.stems[one.stream], block)

    # ------------------------------------------------------------------ plans

    def _ready(self) -> Trees:
        if self._bed.stale:
            self._bed.lay_out()
            self._trees = None
        if self._trees is None:
            self._trees = self._grow_trees()
        return self._trees

    def _grow_trees(self) -> Trees:
        stems = list(self.stems)
        homes = [stems.index(role.stream) for role in self.roles]
        shapes: dict[Shape, Array] = {}
        for party in self.parties.values():
            mask = shapes.setdefault(party.shape, np.zeros(self.words, np.uint64))
            word, bit = bit_of(party.bit)
            mask[word] |= bit
        first = self._bed.rows.first_index
        sides = {side for shape in shapes for hop in shape.hops for side in hop}
        indexes = {side: int(first[homes[side.role]]) + side.index for side in sides}
        members = np.array(list(shapes.values()), np.uint64).reshape(-1, self.words)
        return trees(list(shapes), members, self.sources, homes, indexes, self._met)

    def _windowed(self) -> tuple[Array, Array, Array, Array]:
        """Per role where its windows begin; all lengths; their masks; per SteM how far back a walk looks."""
        if self._windows is None:
            firsts: list[int] = [0]
            lengths: list[int] = []
            masks: list[Array] = []
            sight = np.zeros(len(self.stems), np.int64)
            stems = list(self.stems)
            for role in self.roles:
                bits = sorted(role.windows, key=lambda b: role.windows[b])
                mask = np.zeros(self.words, np.uint64)
                for bit in bits:
                    word, mark = bit_of(bit)
                    mask[word] |= mark
                for bit in bits:
                    length = role.windows[bit]
                    if len(lengths) == firsts[-1] or lengths[-1] != length:
                        lengths.append(length)
                        masks.append(mask.copy())
                    word, mark = bit_of(bit)
                    mask[word] &= ~mark
                firsts.append(len(lengths))
                home = stems.index(role.stream)
                sight[home] = max(int(sight[home]), lengths[-1] if bits else 0)
            self._windows = (
                np.array(firsts, np.int64),
                np.array(lengths, np.int64),
                np.array(masks, np.uint64).reshape(-1, self.words),
                sight,
            )
        return self._windows

    # ------------------------------------------------------------------ rows

    def step(self, found: Mapping[str, Sorted], now: int) -> dict[int, Sorted]:
        """Rows of a step, sorted by their eddies → tuples by virtual source, and who wants which."""
        plan = self._ready()
        firsts, lengths, masks, sight = self._windowed()
        arriving = [
            (edge, stem, some)
            for edge, stem in enumerate(self.stems.values())
            for some in [self._arriving(stem, found.get(stem.stream))]
            if some is not None
        ]
        made: dict[int, Sorted] = {}
        if arriving:
            wanted = [0] * len(self.stems)
            for edge, _, some in arriving:
                wanted[edge] = len(some.batch)
            self._bed.rows.reserve(wanted)
            events = self._admitted(arriving)
            made = self._tuples(plan, self._walked(plan, events, firsts, lengths, masks, sight))
        self._expire(now, sight)
        return made

    def _arriving(self, stem: Stem, found: Sorted | None) -> Arriving | None:
        """The rows that some join wants."""
        if found is None or not len(found.rows):
            return None
        assert found.lineage is not None
        lineage = found.lineage[found.rows]
        lines = [np.ascontiguousarray(lineage[:, self.roles[role].words]) for role in stem.roles]
        batch = found.batch.take(found.rows)
        keys, texts = self._keys(stem, batch, lines)
        alive = np.array([line.any(axis=1) for line in lines])
        some = alive.any(axis=0)
        if not some.all():
            picked = np.flatnonzero(some)
            if not len(picked):
                return None
            batch, alive = batch.take(picked), alive[:, picked]
            lines, keys = [line[picked] for line in lines], [key[picked] for key in keys]
            texts = [text.take(picked) for text in texts]
        return Arriving(batch, keys, texts, lines, alive)

    def _keys(self, stem: Stem, batch: Batch, lines: Sequence[Array]) -> tuple[list[Array], list[Column]]:
        """Each attribute's keys, and those that are strings; a query that joins by a NULL does not want the row."""
        n, keys, texts = len(batch), [], []
        for attribute in stem.attributes.values():
            columns = [run(batch.columns, n) for run in attribute.run]
            for column, key in zip(columns, attribute.keys, strict=True):
                if key.type is Type.STRING:
                    texts.append(column)
                if column.valid is not None:
                    null = np.flatnonzero(~column.valid)
                    for role, line in zip(stem.roles, lines, strict=True):
                        line[null] &= ~self._mask(attribute.uses.get(role, ()))
            parts = [words.plain(c, k.type) for c, k in zip(columns, attribute.keys, strict=True)]
            keys.append(key_words(parts, n))
        return keys, texts

    def _mask(self, bits: Iterable[int]) -> Array:
        mask = np.zeros(self.words, np.uint64)
        for bit in bits:
            word, mark = bit_of(bit)
            mask[word] |= mark
        return mask

    def _admitted(self, arriving: Sequence[tuple[int, Stem, Arriving]]) -> Events:
        """Write the rows into their SteMs; they are not in any index yet."""
        parts: dict[int, tuple[Array, Array, Array, Array]] = {}
        for edge, stem, some in arriving:
            batch = some.batch
            columns = [batch.columns[i] for i in stem.stored] + some.texts
            first = self._bed.rows.admit(edge, Batch(batch.ts, batch.ts, batch.columns), columns, some.keys)
            notes = self._bed.notes(stem.stream, first, first + len(batch))
            entered = np.zeros(len(batch), np.bool_)
            for at, (role, line) in enumerate(zip(stem.roles, some.lines, strict=True)):
                rows = np.flatnonzero(some.alive[at])
                line = line if len(rows) == len(line) else line[rows]
                notes[at][:] = 0
                if len(rows):
                    notes[at][rows] = self.lineages.numbers(line)
                parts[role] = (batch.ts[rows], first + rows, line, ~entered[rows])
                entered[rows] = True
        roles = sorted(parts)
        ts, slots, lines, entering = (np.concatenate([parts[role][i] for role in roles]) for i in range(4))
        bounds = np.cumsum([0, *(len(parts[role][0]) for role in roles)])
        n = len(ts)
        times, side, order = room(n, np.int64), room(n, np.int8), room(n, np.int32)
        chains.in_turn(ts, bounds, bounds[:-1].copy(), bounds[:-1], times, side, order)
        return Events(times, np.array(roles)[side], slots[order], order, entering[order], lines)

    def _walked(
        self, plan: Trees, events: Events, firsts: Array, lengths: Array, masks: Array, sight: Array
    ) -> Met:
        rows = self._bed.rows
        roles = len(self.roles)
        home = np.array([self._bed.edge(role.stream) for role in self.roles], np.int64)
        fields = np.array(
            [
                rows.note_field(edge, self.stems[role.stream].roles.index(role.number))
                for edge, role in zip(home.tolist(), self.roles, strict=True)
            ],
            np.int64,
        )
        work = np.empty((4, max(roles, plan.depth + 1)), np.int64)
        kept = np.empty((plan.depth + 1, self.words), np.uint64)
        stats = np.zeros((len(plan.nodes), 2), np.int64)
        parts: list[Met] = []
        done, total = 0, len(events.times)
        while done < total:
            size, before = self._room, done
            out = Met(
                room(size, np.int64), room(size, np.int32), room((roles, size), np.int32),
                room((size, self.words), np.uint64),
            )  # fmt: skip
            done, made = meeting.meet(
                done, events.times, events.roles, events.slots, events.lines, events.entering, events.lineage,
                rows.edges, rows.indexes, rows.first_index, rows.rows, rows.halves, rows.head, home, fields, sight,
                plan.nodes, plan.roots, plan.need, plan.done, firsts, lengths, masks, self.lineages.known,
                work, kept, stats, out.ts, out.node, out.slots, out.lineage,
            )  # fmt: skip
            parts.append(out.first(made))
            if done == before or (done < total and made > size // 2):
                self._room *= 2
        self._learn(plan, stats)
        self.visits += total + int(stats[:, 1].sum())
        return parts[0] if len(parts) == 1 else Met.joined(parts)

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

    def _tuples(self, plan: Trees, met: Met) -> dict[int, Sorted]:
        made = {}
        source, rows = plan.source[met.node], self._bed.rows
        for roles, number in self.sources.items():
            picked = np.flatnonzero(source == number)
            if not len(picked):
                continue
            some = met if len(picked) == len(source) else met.at(picked)
            columns: list[Column] = []
            for role in roles:
                stem = self.stems[self.roles[role].stream]
                edge = self._bed.edge(stem.stream)
                slots = some.slots[role]
                own: list[Column] = [ABSENT] * len(stem.schema)
                for i, column in zip(stem.stored, rows.frames[edge].at(slots), strict=False):
                    own[i] = column
                columns += [Column(rows.table(edge)[slots, 0]), *own]
            counts = np.zeros(64 * self.words, np.int64)
            every = np.arange(len(some.ts), dtype=np.int32)
            kernels.tally(some.lineage, every, np.empty((8, self.words), np.uint64), counts)
            self.counts[number] += counts
            made[number] = Sorted(Batch(some.ts, some.ts, tuple(columns)), every, counts, some.lineage)
        return made

    def _expire(self, now: int, sight: Array) -> None:
        """Rows that no window reaches are gone; numbers of lineages that no row has, too."""
        for stream, far in zip(self.stems, sight.tolist(), strict=True):
            self._bed.expire(stream, now - far)
        if len(self.lineages) > self._many:
            used = self._bed.rows.edges[:, chains.USED].tolist()
            both = zip(self.stems, used, strict=True)
            notes = [note for stream, n in both for note in self._bed.notes(stream, 0, n)]
            new = self.lineages.compact(np.unique(np.concatenate(notes)))
            for note in notes:
                note[:] = new[note]
            self._many = max(1 << 12, 2 * len(self.lineages))

    # ------------------------------------------------------------------ leaving and coming back

    def save(self, arena: Arena) -> dict[str, Any]:
        """Lay the rows into an arena; how they lie there."""
        arena.keep("known", self.lineages.known[: len(self.lineages)].view(np.int64).copy())
        return {
            "words": self.words,
            "roles": [list(key) for key in self._role_of],
            "streams": self._bed.save(arena, lambda role: bool(self.roles[role].windows)),
        }

    def take_up(self, arena: Arena, told: dict[str, Any], bits: Mapping[int, int]) -> None:
        """Hold what was saved by another; `bits`: what a query's bit was, and is now. The queries are there already."""
        known = self._known_again(arena, told["words"], bits)
        roles = [self._role_of.get((stream, k), -1) for stream, k in told["roles"]]
        self._bed.take_up(arena, told["streams"], known, roles)

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
        some = np.flatnonzero(bitmaps.any(axis=1))
        if len(some):
            numbers[some] = self.lineages.numbers(np.ascontiguousarray(bitmaps[some]))
        return numbers

    # ------------------------------------------------------------------ memory

    @property
    def sizes(self) -> dict[str, int]:
        """Rows held, by stream."""
        return dict(zip(self.stems, self._bed.rows.sizes, strict=False))

    @property
    def stem_bytes(self) -> dict[str, int]:
        """What their rows and indexes take, by stream."""
        rows = self._bed.rows
        return {
            stream: rows.bytes_of(edge) for edge, stream in enumerate(self.stems) if edge < len(rows.frames)
        }

    @property
    def size_bytes(self) -> int:
        return self._bed.rows.arena.size_bytes + self.lineages.size_bytes

    def mark_strings(self, mark: Callable[[Array], None]) -> None:
        self._bed.rows.arena.mark_strings(mark)


@dataclass(slots=True)
class Arriving:
    """Rows of a stream that some join wants."""

    batch: Batch
    keys: list[Array]
    texts: list[Column]
    """Keys that are strings."""
    lines: list[Array]
    """Lineage by role."""
    alive: Array
    """By role and row."""


@dataclass(slots=True)
class Events:
    """Rows in their roles, in the order in which they walk."""

    times: Array
    roles: Array
    slots: Array
    lines: Array
    entering: Array
    lineage: Array


@dataclass(slots=True)
class Met:
    """Tuples of all virtual sources."""

    ts: Array
    node: Array
    slots: Array
    lineage: Array

    def first(self, n: int) -> Met:
        return Met(self.ts[:n], self.node[:n], self.slots[:, :n], self.lineage[:n])

    def at(self, rows: Array) -> Met:
        return Met(self.ts[rows], self.node[rows], self.slots[:, rows], self.lineage[rows])

    @staticmethod
    def joined(parts: Sequence[Met]) -> Met:
        return Met(
            joined([p.ts for p in parts]),
            joined([p.node for p in parts]),
            np.concatenate([p.slots for p in parts], axis=1),
            np.concatenate([p.lineage for p in parts]),
        )
