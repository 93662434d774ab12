"""Rows that are kept once, as they came, until the queries that want them are asked for their answers.

Paper      Madden et al. 2002, §2.1: a tuple is never copied per query; output per query.
Invariant  a query that keeps no state says the same whenever it is handed its rows, so long as it is in order.

Rows of a step are a *chunk*; who wants which is kept with it, or found out again when somebody asks. Few rows that hold
many up are handed over unasked. Queries that say the same of a row and are asked regularly are served together: their rows
are gathered and written once, and each gets its part.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.output import Answer
from penstock.ingest.rejected_rows import column_bytes
from penstock.operators.pipeline import Pipeline
from penstock.sharing.routed_rows import Sorted, Split
from penstock.types import sizes
from penstock.types.batch import Array, Batch, Column

HOT = 8
"""Chunks after somebody took rows for which who wants which is kept, instead of found out again when asked."""


Again = Callable[[], Callable[[Batch], Sorted]]
Likeness = tuple[object, ...]
Part = tuple[pa.RecordBatch, Batch, int]
"""Rows as they leave, and where they begin in a batch."""


class Chunk:
    """Rows of a step that wait for those who are owed them."""

    __slots__ = (
        "_again",
        "_found",
        "_split",
        "batch",
        "counts",
        "made",
        "next",
        "now",
        "rows",
        "size_bytes",
        "waiting",
    )

    def __init__(self, found: Sorted, now: int, waiting: int, again: Again | None) -> None:
        self.rows = len(found.rows)
        """So many of them somebody wants."""
        found = _compact(found)
        self.batch = found.batch
        self.size_bytes = column_bytes(found.batch.columns)
        self.counts = found.counts
        self.now = now
        self.waiting = waiting
        """For so many."""
        self._again = again() if again is not None and found.lineage is None else None
        self._found = None if found.lineage is None else found
        self._split: Split | None = None
        self.made: dict[Owed, Part] = {}
        """What is ready for those who will ask for it."""
        self.next: dict[Likeness, Iterator[Owed]] = {}
        """By likeness: who else may be served."""

    def of(self, bits: Sequence[int]) -> Batch:
        """The rows of queries, one after the other."""
        if self._split is None:
            if self._found is None:
                assert self._again is not None
                self._found = self._again(self.batch)
            self._split, self._found = self._found.split(), None
        split = self._split
        rows = [split.of(bit) for bit in bits]
        return self.batch.take(rows[0] if len(rows) == 1 else np.concatenate(rows))


def _compact(found: Sorted) -> Sorted:
    """In memory of its own; without the rows that nobody wants, if they are the majority."""
    if 2 * len(found.rows) < len(found.batch):
        lineage = None if found.lineage is None else found.lineage[found.rows]
        rows = np.arange(len(found.rows), dtype=np.int32)
        found = Sorted(found.batch.take(found.rows), rows, found.counts, lineage)
    for column in found.batch.columns:
        _ = column.values
    return found


class Waiting:
    """The chunks of one source, and the queries that are owed rows of them."""

    def __init__(self, again: Again | None = None) -> None:
        self.owed: set[Owed] = set()
        self.alike: dict[Likeness, dict[Owed, None]] = {}
        self._again = again
        self._chunks: deque[Chunk] = deque()
        self._first = 0
        self._hot = 0
        self._asked = 0
        self.size_bytes = 0
        """Of the rows, strings as codes."""

    @property
    def end(self) -> int:
        """The number of the next chunk."""
        return self._first + len(self._chunks)

    @property
    def is_hot(self) -> bool:
        """Somebody took rows lately, and will again."""
        return self._hot > 0

    @property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self._chunks)

    def add(self, found: Sorted, now: int) -> None:
        """Rows of a step."""
        if self.owed and len(found.rows):
            self._hot -= 1
            self._chunks.append(Chunk(found, now, len(self.owed), self._again))
            self.size_bytes += self._chunks[-1].size_bytes

    def take(self, begin: int, end: int) -> Iterator[Chunk]:
        if begin < end:
            self._hot = HOT
        for number in range(begin, end):
            yield self._chunks[number - self._first]

    def let_go(self) -> None:
        """Of what everybody has."""
        while self._chunks and self._chunks[0].waiting <= 0:
            self.size_bytes -= self._chunks.popleft().size_bytes
            self._first += 1

    def burden(self, most: int | None = None) -> int | None:
        """The chunk up to which to hand over: all if they take more than `most` bytes, else those that it takes less to hand over than to
        keep, checked anew when `waiting_batches` more wait."""
        if most is not None and self.size_bytes > most:
            return self.end
        self._asked = min(self._asked, len(self._chunks))
        if len(self._chunks) <= self._asked + sizes.current.waiting_batches:
            return None
        self._asked = len(self._chunks)
        number = self.end - sizes.current.waiting_batches
        chunk = self._chunks[number - 1 - self._first]
        late = [owed for owed in self.owed if owed.next < number]
        return number if 2 * sum(owed.wanted(chunk) for owed in late) <= len(chunk.batch) else None

    def columns_in_use(self) -> Iterator[tuple[Column, ...]]:
        for chunk in self._chunks:
            yield chunk.batch.columns


class Owed:
    """Rows that a query which keeps no state has not been handed over."""

    __slots__ = ("_counted", "_counts", "_last", "_pipeline", "_source", "_waiting", "bit", "next")

    def __init__(self, waiting: Waiting, counts: Callable[[], Array], bit: int, pipeline: Pipeline) -> None:
        self._waiting = waiting
        self._counts = counts
        self.bit = bit
        self._pipeline = pipeline
        (self._source,) = pipeline.sources
        self.next = waiting.end
        """The first chunk it has not been handed over."""
        self._last = -HOT
        """The chunk before which it was asked last."""
        self._counted = int(counts()[bit])
        waiting.owed.add(self)
        waiting.alike.setdefault(pipeline.likeness, {})[self] = None

    @property
    def count(self) -> int:
        """How many."""
        return int(self._counts()[self.bit]) - self._counted

    def is_in(self, waiting: Waiting) -> bool:
        return self._waiting is waiting

    def wanted(self, chunk: Chunk) -> int:
        return int(chunk.counts[self.bit])

    def hand_over(self, answer: Answer, until: int | None = None) -> None:
        """Give the answer its rows; or unasked, of the chunks before `until`."""
        end = self._waiting.end if until is None else until
        for number, chunk in enumerate(self._waiting.take(self.next, end), self.next):
            chunk.waiting -= 1
            if self.wanted(chunk):
                if self not in chunk.made:
                    self._serve(chunk, number, answer)
                written, batch, begin = chunk.made.pop(self)
                self._counted += written.num_rows
                answer.take_part(written, batch, begin, chunk.now)
        self.next = end
        if until is None:
            self._last = end
        self._waiting.let_go()

    def _serve(self, chunk: Chunk, number: int, answer: Answer) -> None:
        """Make ready what it wants of a chunk, and with it what others like it will."""
        served, rows = [self], self.wanted(chunk)
        likeness = self._pipeline.likeness
        if likeness not in chunk.next:
            chunk.next[likeness] = iter(list(self._waiting.alike[likeness]))
        if self.is_regular(number):
            for other in chunk.next[likeness]:
                if other is not self and other.next <= number and other.is_regular(number):
                    served.append(other)
                    rows += other.wanted(chunk)
                if rows >= sizes.current.waiting_rows:
                    break
        batch = self._pipeline.step({self._source: chunk.of([one.bit for one in served])}, chunk.now)
        written, begin = answer.written(batch), 0
        for one in served:
            wanted = one.wanted(chunk)
            if wanted:
                chunk.made[one] = written.slice(begin, wanted), batch, begin
            begin += wanted

    def is_regular(self, number: int) -> bool:
        """It was asked not long before a chunk came."""
        return number - self._last < HOT

    def close(self) -> None:
        """Nobody will ask."""
        for chunk in self._waiting.take(self.next, self._waiting.end):
            chunk.waiting -= 1
            chunk.made.pop(self, None)
        self._waiting.owed.discard(self)
        self._leave()
        self._waiting.let_go()

    def _leave(self) -> None:
        """Those who are alike are served without it from now on."""
        alike = self._waiting.alike[self._pipeline.likeness]
        del alike[self]
        if not alike:
            del self._waiting.alike[self._pipeline.likeness]

    def differ(self, likeness: tuple[object, ...]) -> None:
        """It says something else of rows than before."""
        self._leave()
        self._pipeline.likeness = likeness
        self._waiting.alike.setdefault(likeness, {})[self] = None
