"""Who joins what: a bit for every query, the roles in which it reads streams, and what SteMs are to hold for it.

Invariant  a bit is given out again only when no row remembers the query that had it.
Cost       a query that comes or goes: its bit, and its predicates in the eddies of its streams; now and then twice the words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from penstock.operators.expressions.evaluator import Evaluator
from penstock.operators.grouped_filter.grouped_filter import bit_of
from penstock.plan.catalog import Function
from penstock.plan.expressions import Expression
from penstock.plan.fingerprint import predicate_text
from penstock.sharing.eddy import Eddy, Member
from penstock.sharing.join_catalog import MOST, Attribute, Equality, Input, Key, Party, Role, Stem
from penstock.sharing.probe_trees import Hop, Shape, Side
from penstock.sharing.routed_rows import Said
from penstock.sharing.stem_store import Bed
from penstock.state.lineages import Lineages
from penstock.state.strings import Strings
from penstock.types.batch import Array, Batch


class Parties:
    """The joins of a confluence. What is public is read by it; it changes only here."""

    def __init__(
        self, strings: Strings, functions: Mapping[str, Function], eddy: Callable[[str], Eddy]
    ) -> None:
        self._strings = strings
        self._functions = functions
        self._eddy = eddy
        self.words = 1
        self._free = list(range(63, 0, -1))
        """Bits that no query has and no row remembers; bit 0 is never given out (`state.lineages`)."""
        self.by_bit: dict[int, Party] = {}
        self.roles: list[Role] = []
        self.role_of: dict[tuple[str, int], int] = {}
        """By stream, and as the how-manieth it is read."""
        self.stems: dict[str, Stem] = {}
        self.lineages = Lineages(1)
        self.bed = Bed(self.stems)
        self.sources: dict[tuple[int, ...], int] = {}
        """Virtual sources by their roles."""
        self.counts: list[Array] = []
        """By virtual source and bit: results so far."""

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
                    self.bed.stale = True
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
        self.by_bit[bit] = party
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
        del self.by_bit[party.bit]
        self._free.append(party.bit)

    def release(self) -> None:
        """Nobody is there, and nobody will come: give back what eddies and strings hold for joins."""
        for stem in self.stems.values():
            for attribute in stem.attributes.values():
                attribute.evaluator.release()
        for role in self.roles:
            for word in role.words:
                self._eddy(role.stream).give_word(word)

    def fit(self) -> None:
        """Have room for what filters say of rows, where that is noted by itself."""
        for stem in self.stems.values():
            filters = len(self._eddy(stem.stream).operators)
            if stem.apart and stem.parts < filters <= MOST:
                stem.parts = filters
                self.bed.stale = True

    def said(self, stem: Stem, batch: Batch) -> list[Said]:
        """What filters say of rows that somebody wants, if it is to be noted by itself and there is room."""
        told = self._eddy(stem.stream).said(batch) if stem.apart else []
        return told if len(told) <= stem.parts else []

    def mask(self, bits: Iterable[int]) -> Array:
        """A bitmap with these bits."""
        mask = np.zeros(self.words, np.uint64)
        for bit in bits:
            word, mark = bit_of(bit)
            mask[word] |= mark
        return mask

    def _role(self, one: Input, occurrence: int) -> int:
        found = self.role_of.get((one.stream, occurrence))
        if found is None:
            found = self.role_of[one.stream, occurrence] = len(self.roles)
            eddy = self._eddy(one.stream)
            self.roles.append(Role(found, one.stream, [eddy.take_word() for _ in range(self.words)]))
            self.stems.setdefault(one.stream, Stem(one.stream, one.schema)).roles.append(found)
            self.bed.stale = True
        return found

    def _bit(self) -> int:
        if not self._free:
            self._widen()
        return self._free.pop()

    def _widen(self) -> None:
        more = self.words
        for role in self.roles:
            role.words += [self._eddy(role.stream).take_word() for _ in range(more)]
        self._free += range(64 * (self.words + more) - 1, 64 * self.words - 1, -1)
        self.words += more
        self.lineages.widen(self.words)
        self.counts[:] = [np.concatenate([c, np.zeros(64 * more, np.int64)]) for c in self.counts]

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
            self.bed.stale = True
        attribute.uses.setdefault(role, set()).add(bit)
        attributes.append((stream, key, role))
        return Side(role, list(stem.attributes).index(key))
