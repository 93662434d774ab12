"""What the queries of an engine share: an eddy per stream, one confluence for all joins.

Paper      Madden et al. 2002: one eddy per flow; a query sees exactly the tuples that come after it.
Invariant  a query gets exactly what it would get by itself from its registration on.

A *leaf* is a predicate over a stream as some plan has it at its bottom; plans with the same leaf have one. Where a plan
keeps state its rows are handed over in every step; where it keeps none they wait (`sharing.deferred_output`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.operators.contract import empty
from penstock.operators.grouped_filter.grouped_filter import bit_of
from penstock.operators.pipeline import JOIN, LEAF, Key, Pipeline
from penstock.plan.catalog import Function
from penstock.plan.expressions import Expression
from penstock.plan.fingerprint import functions_in, predicate_text
from penstock.sharing.deferred_output import Owed, Waiting
from penstock.sharing.eddy import Eddy, Member
from penstock.sharing.join_catalog import Equality, Input, Party
from penstock.sharing.routed_rows import Sorted
from penstock.sharing.shared_join import Confluence
from penstock.state.string_sweep import InUse
from penstock.state.strings import Strings
from penstock.types.batch import Array, Batch
from penstock.types.schema import Schema


@dataclass(slots=True)
class Leaf:
    """A predicate over a stream, and how many plans have it at their bottom."""

    key: Key
    text: str
    member: Member
    users: int = 0
    eager: int = 0
    """Plans that take its rows in every step."""


@dataclass(slots=True)
class Joined:
    """A join of a plan."""

    key: Key
    party: Party
    width: int
    stream: str
    """One of those that it joins."""
    users: int = 0
    eager: int = 0


class Current:
    """A stream's eddy, its leaves, and its rows that wait."""

    def __init__(self, stream: str, eddy: Eddy) -> None:
        self.stream = stream
        self.eddy = eddy
        self.leaves: dict[Key, Leaf] = {}
        self.by_text: dict[str, Leaf] = {}
        """Those that a new plan may have too."""
        self.eager: dict[Key, Leaf] = {}
        """Those whose rows are taken in every step."""
        self.waiting = Waiting(eddy.again)

    def counts(self) -> Array:
        return self.eddy.counts

    @property
    def is_idle(self) -> bool:
        """Nobody reads the stream."""
        return not self.eddy.members

    def leaf(self, text: str, predicate: Expression | None) -> Leaf:
        found = self.by_text.get(text)
        if found is None or found.member.failed is not None:
            # The members of an eddy are numbered; a number is another's only after its leaf is gone.
            member = self.eddy.enrol(predicate)
            found = self.by_text[text] = Leaf((LEAF, f"{self.stream}\n{member.bit}"), text, member)
            self.leaves[found.key] = found
        return found

    def drop(self, leaf: Leaf) -> None:
        self.eddy.leave(leaf.member)
        del self.leaves[leaf.key]
        if self.by_text.get(leaf.text) is leaf:
            del self.by_text[leaf.text]

    def step(self, batch: Batch, now: int, *, meets: bool) -> tuple[dict[Key, Batch], Sorted, list[Member]]:
        """The rows of a step: by leaf those that are taken at once; all; the queries that failed. `meets`: a join reads them."""
        taken = list(self.eager.values())
        waits = bool(self.waiting.owed) and (self.waiting.is_hot or self._costly)
        found, failed = self.eddy.sort(batch, keep=meets or waits or bool(taken))
        made: dict[Key, Batch] = {}
        if taken:
            split = found.split(_mask([leaf.member.bit for leaf in taken], self.eddy.words))
            made = {leaf.key: batch.take(split.of(leaf.member.bit)) for leaf in taken}
        self.waiting.add(found, now)
        return made, found, failed

    @property
    def _costly(self) -> bool:
        return any(o.filter.costly for o in self.eddy.operators.values())


def _mask(bits: Sequence[int], words: int) -> Array:
    mask = np.zeros(words, np.uint64)
    for bit in bits:
        word, mark = bit_of(bit)
        mask[word] |= mark
    return mask


@dataclass(slots=True)
class Sharing:
    """All eddies and joins of an engine."""

    strings: Strings
    functions: Mapping[str, Function]
    routing: str = "thompson"
    seed: int = 0
    currents: dict[str, Current] = field(default_factory=dict)
    confluence: Confluence = field(init=False)
    joins: dict[Key, Joined] = field(default_factory=dict)
    tuples: dict[int, Waiting] = field(default_factory=dict)
    """By virtual source: results that wait."""

    def __post_init__(self) -> None:
        self.confluence = Confluence(self.strings, self.functions, lambda stream: self._current(stream).eddy)

    def _current(self, stream: str) -> Current:
        if stream not in self.currents:
            eddy = Eddy(self.strings, self.functions, self.routing, self.seed)
            self.currents[stream] = Current(stream, eddy)
        return self.currents[stream]

    # ------------------------------------------------------------------ what plans begin with

    def leaf(self, stream: str, predicate: Expression | None) -> Key:
        """The source of a plan that begins with this predicate."""
        text = "" if predicate is None else predicate_text(predicate)
        functions = functions_in(text, self.functions)
        if functions:
            # Equal, but for the order in which it is written, is not enough: that decides which rows a function sees.
            text += f" {functions} {predicate}"
        return self._current(stream).leaf(text, predicate).key

    def join(self, inputs: Sequence[Input], equalities: Sequence[Equality]) -> tuple[Key, list[int]]:
        """The source of a plan that begins with this join, and where each input's columns begin in its tuples."""
        party = self.confluence.join(inputs, equalities)
        streams = dict.fromkeys(one.stream for one in inputs)
        key = (JOIN, "\n".join([*streams, str(party.bit)]))
        schemas = {role: one.schema for role, one in zip(party.roles, inputs, strict=True)}
        at, places = 0, {}
        for role in party.shape.roles:
            places[role] = at
            at += 1 + len(schemas[role])
        self.joins[key] = Joined(key, party, at, inputs[0].stream)
        return key, [places[role] for role in party.roles]

    def begin(self, pipeline: Pipeline) -> Owed | None:
        """A plan begins to run; if it keeps no state, what it is owed from now on."""
        for one in self._shared(pipeline):
            one.users += 1
            self._hasten(one, not pipeline.lazy)
        if not pipeline.lazy:
            return None
        (source,) = pipeline.sources
        if source[0] == LEAF:
            current = self.currents[source[1].split("\n")[0]]
            return Owed(current.waiting, current.counts, current.leaves[source].member.bit, pipeline)
        party = self.joins[source].party
        number = self.confluence.sources[party.shape.roles]
        waiting = self.tuples.setdefault(number, Waiting())
        return Owed(waiting, lambda: self.confluence.counts[number], party.bit, pipeline)

    def release(self, pipeline: Pipeline) -> None:
        """A plan that has begun is gone."""
        for one in self._shared(pipeline):
            one.users -= 1
            self._hasten(one, -(not pipeline.lazy))
            if not one.users:
                self._drop(one)

    def _hasten(self, one: Leaf | Joined, more: int) -> None:
        """So many more plans take its rows in every step."""
        one.eager += more
        if isinstance(one, Leaf):
            eager = self.currents[one.key[1].split("\n")[0]].eager
            if one.eager:
                eager[one.key] = one
            else:
                eager.pop(one.key, None)

    def tidy(self) -> None:
        """A plan could not be made: let go of what no plan has."""
        every: list[Leaf | Joined] = [*self.joins.values()]
        every += [leaf for current in self.currents.values() for leaf in current.leaves.values()]
        for one in every:
            if not one.users:
                self._drop(one)

    def _drop(self, one: Leaf | Joined) -> None:
        if isinstance(one, Leaf):
            self.currents[one.key[1].split("\n")[0]].drop(one)
        else:
            del self.joins[one.key]
            self.confluence.leave(one.party)
            if not self.joins:
                self.tuples.clear()
        for stream in [s for s, c in self.currents.items() if c.is_idle and s not in self.confluence.stems]:
            del self.currents[stream]

    def _shared(self, pipeline: Pipeline) -> list[Leaf | Joined]:
        made: list[Leaf | Joined] = []
        for key in pipeline.sources:
            if key[0] == LEAF:
                made.append(self.currents[key[1].split("\n")[0]].leaves[key])
            elif key[0] == JOIN:
                made.append(self.joins[key])
        return made

    def uses(self, pipeline: Pipeline, member: Member) -> bool:
        """Whether a plan begins with this predicate."""
        return any(
            one.member is member if isinstance(one, Leaf) else any(m is member for m in one.party.members)
            for one in self._shared(pipeline)
        )

    # ------------------------------------------------------------------ rows

    @property
    def overrun(self) -> list[Key]:
        """Joins that made too many results in the last step, and make none any more."""
        over = self.confluence.overrun
        return [key for key, one in self.joins.items() if any(one.party is party for party in over)]

    def step(
        self, feeds: Mapping[Key, Batch], now: int, streams: Collection[str]
    ) -> tuple[dict[Key, Batch], list[Member]]:
        """Rows by leaf, results by join, and the queries that failed; `streams`: those whose clock rises."""
        made: dict[Key, Batch] = {}
        failed: list[Member] = []
        found: dict[str, Sorted] = {}
        for stream, current in self.currents.items():
            batch = feeds.get(("stream", stream))
            if batch is not None and len(batch):
                meets = stream in self.confluence.stems
                rows, found[stream], lost = current.step(batch, now, meets=meets)
                made |= rows
                failed += lost
        if self.joins:
            made |= self._meet(found, now, streams)
        return made, failed

    def _meet(self, found: Mapping[str, Sorted], now: int, streams: Collection[str]) -> dict[Key, Batch]:
        tuples = self.confluence.step(found, now, streams)
        eager = [one for one in self.joins.values() if one.eager and one.stream in streams]
        made = {one.key: empty(one.width) for one in eager}
        by_source: dict[int, list[Joined]] = {}
        for one in eager:
            by_source.setdefault(self.confluence.sources[one.party.shape.roles], []).append(one)
        for number, some in tuples.items():
            asked = by_source.get(number, [])
            if asked:
                split = some.split(_mask([one.party.bit for one in asked], self.confluence.words))
                made |= {one.key: some.batch.take(split.of(one.party.bit)) for one in asked}
            if number in self.tuples:
                self.tuples[number].add(some, now)
        return made

    def burdens(self, most: int | None) -> Iterator[tuple[Waiting, int]]:
        """What waits for long, and up to where to hand it over: all of it if it takes more than `most` bytes."""
        for waiting in self._waiting():
            until = waiting.burden(most)
            if until is not None:
                yield waiting, until

    def _waiting(self) -> Iterator[Waiting]:
        yield from (c.waiting for c in self.currents.values())
        yield from self.tuples.values()

    @property
    def waiting_bytes(self) -> int:
        """Rows that wait for queries without state to be read."""
        return sum(waiting.size_bytes for waiting in self._waiting())

    # ------------------------------------------------------------------ memory

    def mark_strings(self, schemas: Mapping[str, Schema], in_use: InUse) -> None:
        """Those of rows that wait to be handed over, and those that joins hold."""
        for stream, current in self.currents.items():
            in_use.rows(schemas[stream], current.waiting.columns_in_use())
        for roles, number in self.confluence.sources.items():
            if number in self.tuples:
                types: list[Schema] = [schemas[self.confluence.roles[role].stream] for role in roles]
                for columns in self.tuples[number].columns_in_use():
                    at = 0
                    for schema in types:
                        in_use.rows(schema, [columns[at + 1 : at + 1 + len(schema)]])
                        at += 1 + len(schema)
        self.confluence.mark_strings(in_use.mark)

    def shrink(self, coming: int) -> None:
        """Give back room that neither rows of joins nor so many new ones need."""
        self.confluence.shrink(coming)

    @property
    def size_bytes(self) -> int:
        """What grouped filters and SteMs take."""
        return sum(c.eddy.size_bytes for c in self.currents.values()) + self.confluence.size_bytes
