"""Unread changes of a query: counted in bytes, and bounded, with a warning first.

Invariant  nothing is discarded silently: the user is warned in an earlier call, and the next read after it is a `StateError`. What the
           latest call has made is kept, however much it is: a program that reads after every call loses nothing.
Cost       bytes are counted after a call, when a quarter more batches wait than at the last count.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import StateError, UnreadWarning


@dataclass(slots=True, eq=False)
class UnreadLimit:
    """`most`: bytes that may wait for one query; `notices`: warnings that its user is still to be given; `grown`: all unread changes that
    are to be counted once the call has ended."""

    query: str
    most: int
    notices: list[Warning]
    grown: list[UnreadChanges]


class UnreadChanges:
    """Batches of changes in the order in which they were made."""

    __slots__ = ("_count_at", "_counted", "_discarded", "_is_due", "_warned", "batches", "limit")

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.limit: UnreadLimit | None = None
        self._count_at = 1
        self._counted = 0
        """Batches at the last count; later ones are of the latest call."""
        self._is_due = False
        self._discarded = 0
        """Changes, since the last read."""
        self._warned = False

    def __bool__(self) -> bool:
        return bool(self.batches or self._discarded)

    def add(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
        if self.limit is not None and not self._is_due and len(self.batches) >= self._count_at:
            self._is_due = True
            self.limit.grown.append(self)

    def count(self) -> None:
        """After a call: warn, and in a later one discard what was made before it."""
        limit, held = self.limit, self.size_bytes
        assert limit is not None
        self._is_due = False
        if 2 * held > limit.most and not self._warned:
            self._warned = True
            limit.notices.append(
                UnreadWarning(
                    f"query {limit.query}: {held:,} bytes of changes have not been read; beyond {limit.most:,} they are"
                    " discarded: read changes(), or connect(unread_bytes=…) with more"
                )
            )
        elif held > limit.most:
            self._discarded += sum(batch.num_rows for batch in self.batches[: self._counted])
            del self.batches[: self._counted]
        self._counted = len(self.batches)
        # Beyond the bound every call counts: the next one discards.
        self._count_at = self._counted + 1 + (0 if held > limit.most else self._counted >> 2)

    def taken(self, schema: pa.Schema) -> pa.Table:
        """All of them, once."""
        if self._discarded:
            gone, self._discarded = self._discarded, 0
            raise StateError(
                f"{gone:,} changes were discarded: they were not read, and took more than connect(unread_bytes=…) allows",
                hint="take a snapshot(), and read changes() from here on",
            )
        table = pa.Table.from_batches(self.batches, schema=schema)
        self.batches, self._count_at, self._counted = [], 1, 0
        return table

    @property
    def size_bytes(self) -> int:
        return sum(batch.nbytes for batch in self.batches)
