"""What the queries of an engine share: an eddy per stream, and rows that are kept once until they are asked for.

Paper      Madden et al. 2002: one eddy per flow, a tuple is never copied per query; per-query output (§2.1).
Invariant  a query gets exactly what it would get by itself from its registration on.

A *leaf* is a predicate over a stream as some plan has it at its bottom; plans with the same leaf have one. Where a plan
keeps state its rows are handed over in every step. A plan that keeps none (*owed* to) is counted by the eddy and gets its
rows when somebody looks: until then they wait as they came, once for all queries (`Chunk`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np

from penstock.data.batch import Batch, Column
from penstock.flow.eddy import Eddy, Member, Sorted, Split
from penstock.operators.grouped import bit_of
from penstock.plan.catalog import Function
from penstock.plan.expressions import Expression
from penstock.plan.fingerprint import functions_in, predicate_text
from penstock.runtime.answer import Answer
from penstock.runtime.build import Pipeline
from penstock.state.strings import Strings

HOT = 8
"""Chunks after somebody took rows for which who wants which is kept, instead of found out again when asked."""
MANY = 32
"""Chunks that wait, from which on few rows that hold many up are handed over."""
LEAF = "leaf"
Key = tuple[str, str]


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
class Chunk:
    """Rows of a step that wait for those who are owed them."""

    found: Sorted
    now: int
    waiting: int
    """For so many."""
    split: Split | None = None

    def of(self, member: Member, eddy: Eddy) -> Batch:
        """A query's rows."""
        if self.split is None:
            if self.found.lineage is None:
                self.found = eddy.again(self.found.batch)
            self.split = self.found.split()
            self.found.lineage = None
        return self.found.batch.take(self.split.of(member.bit))


class Owed:
    """Rows that a query which keeps no state has not been handed over."""

    __slots__ = ("_counted", "_current", "_member", "_next", "_pipeline", "_source")

    def __init__(self, current: Current, member: Member, pipeline: Pipeline) -> None:
        self._current = current
        self._member = member
        self._pipeline = pipeline
        (self._source,) = pipeline.sources
        self._next = current.end
        self._counted = int(current.eddy.counts[member.bit])
        current.owed.add(self)

    @property
    def count(self) -> int:
        """How many."""
        return int(self._current.eddy.counts[self._member.bit]) - self._counted

    def hand_over(self, answer: Answer, until: int | None = None) -> None:
        """Give the answer its rows (of the chunks before `until`)."""
        current = self._current
        end = current.end if until is None else until
        for chunk in current.take(self._next, end):
            chunk.waiting -= 1
            wanted = int(chunk.found.counts[self._member.bit])
            if wanted:
                self._counted += wanted
                batch = chunk.of(self._member, current.eddy)
                answer.take(self._pipeline.step({self._source: batch}, chunk.now), chunk.now)
        self._next = end
        current.let_go()

    def wanted(self, chunk: Chunk) -> int:
        return int(chunk.found.counts[self._member.bit])

    @property
    def next(self) -> int:
        """The first chunk it has not been handed over."""
        return self._next

    def close(self) -> None:
        """Nobody will ask."""
        for chunk in self._current.take(self._next, self._current.end):
            chunk.waiting -= 1
        self._current.owed.discard(self)
        self._current.let_go()


class Current:
    """A stream's eddy, and its rows that wait."""

    def __init__(self, eddy: Eddy) -> None:
        self.eddy = eddy
        self.leaves: dict[Key, Leaf] = {}
        self.by_text: dict[str, Leaf] = {}
        """Those that a new plan may have too."""
        self.owed: set[Owed] = set()
        self._chunks: deque[Chunk] = deque()
        self._first = 0
        self._hot = 0

    @property
    def end(self) -> int:
        """The number of the next chunk."""
        return self._first + len(self._chunks)

    def take(self, begin: int, end: int) -> Iterator[Chunk]:
        if begin < end:
            self._hot = HOT
        for number in range(begin, end):
            yield self._chunks[number - self._first]

    def let_go(self) -> None:
        """Of what everybody has."""
        while self._chunks and self._chunks[0].waiting <= 0:
            self._chunks.popleft()
            self._first += 1

    def step(self, batch: Batch, now: int) -> tuple[dict[Key, Batch], list[Member]]:
        """The rows of a step: by leaf those that are taken at once; the queries that failed."""
        taken = [leaf for leaf in self.leaves.values() if leaf.eager]
        keep = bool(taken) or (bool(self.owed) and (self._hot > 0 or self._costly))
        found, failed = self.eddy.sort(batch, keep=keep)
        made: dict[Key, Batch] = {}
        if taken:
            wanted = np.zeros(self.eddy.words, np.uint64)
            for leaf in taken:
                word, bit = bit_of(leaf.member.bit)
                wanted[word] |= bit
            split = found.split(wanted)
            made = {leaf.key: batch.take(split.of(leaf.member.bit)) for leaf in taken}
        if self.owed and len(found.rows):
            self._hot -= 1
            self._chunks.append(Chunk(_compact(found), now, len(self.owed)))
        return made, failed

    @property
    def _costly(self) -> bool:
        return any(o.filter.costly for o in self.eddy.operators.values())

    @property
    def burden(self) -> int | None:
        """The chunk up to which to hand over, if that takes less than keeping it."""
        if len(self._chunks) <= MANY:
            return None
        number = self.end - MANY
        chunk = self._chunks[number - 1 - self._first]
        late = [owed for owed in self.owed if owed.next < number]
        return number if 2 * sum(owed.wanted(chunk) for owed in late) <= len(chunk.found.batch) else None

    def leaf(self, stream: str, text: str, predicate: Expression | None) -> Leaf:
        found = self.by_text.get(text)
        if found is None or found.member.failed is not None:
            # The members of an eddy are numbered; a number is another's only after its leaf is gone.
            member = self.eddy.enrol(predicate)
            found = self.by_text[text] = Leaf((LEAF, f"{stream}\n{member.bit}"), text, member)
            self.leaves[found.key] = found
        return found

    def drop(self, leaf: Leaf) -> None:
        self.eddy.leave(leaf.member)
        del self.leaves[leaf.key]
        if self.by_text.get(leaf.text) is leaf:
            del self.by_text[leaf.text]

    def columns_in_use(self) -> Iterator[tuple[Column, ...]]:
        for chunk in self._chunks:
            yield chunk.found.batch.columns

    @property
    def size_bytes(self) -> int:
        """What the grouped filters take."""
        return self.eddy.size_bytes


def _compact(found: Sorted) -> Sorted:
    """Without the rows that nobody wants, if they are the majority."""
    if 2 * len(found.rows) >= len(found.batch):
        return found
    batch = found.batch.take(found.rows)
    for column in batch.columns:
        _ = column.values
    lineage = None if found.lineage is None else found.lineage[found.rows]
    return Sorted(batch, np.arange(len(batch), dtype=np.int32), found.counts, lineage)


@dataclass(slots=True)
class Sharing:
    """All streams' eddies."""

    strings: Strings
    functions: Mapping[str, Function]
    routing: str = "thompson"
    seed: int = 0
    currents: dict[str, Current] = field(default_factory=dict)

    def leaf(self, stream: str, predicate: Expression | None) -> Key:
        """The source of a plan that begins with this predicate."""
        current = self.currents.get(stream)
        if current is None:
            current = self.currents[stream] = Current(
                Eddy(self.strings, self.functions, self.routing, self.seed)
            )
        text = "" if predicate is None else predicate_text(predicate)
        text += "".join(f" {number}" for number in functions_in(text, self.functions))
        return current.leaf(stream, text, predicate).key

    def begin(self, pipeline: Pipeline) -> Owed | None:
        """A plan begins to run; if it keeps no state, what it is owed from now on."""
        for key in leaves_of(pipeline):
            leaf = self._found(key)[1]
            leaf.users += 1
            leaf.eager += not pipeline.lazy
        if not pipeline.lazy:
            return None
        current, leaf = self._found(pipeline.sources[0])
        return Owed(current, leaf.member, pipeline)

    def release(self, pipeline: Pipeline) -> None:
        """A plan that has begun is gone."""
        for key in leaves_of(pipeline):
            leaf = self._found(key)[1]
            leaf.users -= 1
            leaf.eager -= not pipeline.lazy
            if not leaf.users:
                self._drop(key)

    def tidy(self, streams: AbstractSet[str]) -> None:
        """A plan of these streams could not be made: let go of leaves that no plan has."""
        for stream in streams & self.currents.keys():
            for key in [key for key, leaf in self.currents[stream].leaves.items() if not leaf.users]:
                self._drop(key)

    def _drop(self, key: Key) -> None:
        current, leaf = self._found(key)
        current.drop(leaf)
        if not current.leaves:
            del self.currents[key[1].partition("\n")[0]]

    def _found(self, key: Key) -> tuple[Current, Leaf]:
        current = self.currents[key[1].partition("\n")[0]]
        return current, current.leaves[key]

    def step(self, feeds: Mapping[Key, Batch], now: int) -> tuple[dict[Key, Batch], list[Member]]:
        """Rows by leaf, and the queries that failed."""
        made: dict[Key, Batch] = {}
        failed: list[Member] = []
        for stream, current in self.currents.items():
            batch = feeds.get(("stream", stream))
            if batch is not None and len(batch):
                rows, lost = current.step(batch, now)
                made |= rows
                failed += lost
        return made, failed

    def uses(self, pipeline: Pipeline, member: Member) -> bool:
        return any(self._found(key)[1].member is member for key in leaves_of(pipeline))


def leaves_of(pipeline: Pipeline) -> list[Key]:
    return [source for source in pipeline.sources if source[0] == LEAF]
