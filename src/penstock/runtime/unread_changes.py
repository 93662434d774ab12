"""Unread changes of a query: counted in bytes, and discarded as a whole beyond a bound, with a warning first.

Invariant  nothing is discarded silently: it is said at half the bound, and the next read after it is a `StateError`.
Cost       bytes are counted anew when a quarter more batches wait than at the last count.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import StateError, UnreadWarning


@dataclass(slots=True, eq=False)
class UnreadLimit:
    """`most`: bytes that may wait for one query; `notices`: warnings that its user is still to be given."""

    query: str
    most: int
    notices: list[Warning]


class UnreadChanges:
    """Batches of changes in the order in which they were made."""

    __slots__ = ("_count_at", "_discarded", "_told", "batches", "limit")

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.limit: UnreadLimit | None = None
        self._count_at = 1
        self._discarded = 0
        """Changes, since the last read."""
        self._told = False

    def __bool__(self) -> bool:
        return bool(self.batches or self._discarded)

    def add(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
        if self.limit is not None and len(self.batches) >= self._count_at:
            self._count(self.limit)

    def _count(self, limit: UnreadLimit) -> None:
        held = self.size_bytes
        self._count_at = len(self.batches) + (len(self.batches) >> 2) + 1
        if held > limit.most:
            self._discarded += sum(batch.num_rows for batch in self.batches)
            self.batches, self._count_at = [], 1
        elif 2 * held > limit.most and not self._told:
            self._told = True
            limit.notices.append(
                UnreadWarning(
                    f"query {limit.query}: {held:,} bytes of changes have not been read; beyond {limit.most:,} they are"
                    " discarded: read changes(), or connect(unread_bytes=…) with more"
                )
            )

    def taken(self, schema: pa.Schema) -> pa.Table:
        """All of them, once."""
        if self._discarded:
            gone, self._discarded = self._discarded, 0
            raise StateError(
                f"{gone:,} changes were discarded: they were not read, and took more than connect(unread_bytes=…) allows",
                hint="take a snapshot(), and read changes() from here on",
            )
        table = pa.Table.from_batches(self.batches, schema=schema)
        self.batches, self._count_at = [], 1
        return table

    @property
    def size_bytes(self) -> int:
        return sum(batch.nbytes for batch in self.batches)
