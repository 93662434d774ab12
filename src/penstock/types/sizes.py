"""Internal sizes: where state begins to grow, work is cut into parts, or a structure changes its form.

They change when work is done, never what is true. All stand here so that a test can lower them together:
inputs of a few rows then cross every one. `PENSTOCK_SIZES=lowered` in the environment does it for a whole process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Rows unless it says otherwise; what is doubled as it grows begins at a power of two."""

    step_rows: int = 1 << 16
    """Of all streams in one step: enough to forget its fixed cost, few enough to stay in the cache."""
    slots: int = 64
    """Of a pool that gets its first row."""
    values: int = 64
    """Of a registry at its beginning."""
    stem_rows: int = 64
    """A SteM's first room."""
    buckets: int = 256
    """Of a calendar at its beginning."""
    sparse_rows: int = 256
    """Ids, or rows of a ring, from which room that is hardly used shrinks."""
    crowd: int = 32
    """Slots a bucket of a calendar, on average, from which it gets more buckets."""
    index_buckets: int = 64
    """Of a hash index at its beginning."""
    set_outputs: int = 64
    """Room for the output of a set operation beyond what its input calls for."""
    join_outputs: int = 1024
    """Room for the output of a join at its beginning."""
    join_pairs: int = 1 << 21
    """Pairs of a join without equality that are looked at together."""
    fan_outputs: int = 1 << 18
    """Room for the output of a probe without equality."""
    far_bytes: int = 1 << 19
    """Live rows of a join from which its probes prefetch."""
    farther_bytes: int = 1 << 22
    """The same for the second step of a probe sequence."""
    tree_rows: int = 64
    """Of a tree's source at its beginning."""
    tree_numbers: int = 1 << 30
    """Of a tree's source after which they are numbered anew: numbers are 32 bits wide."""
    tree_results: int = 1024
    """Partial results of a tree's node at its beginning."""
    panes: int = 32
    """Panes of the longest lifetime among the first rows of an input."""
    ring_members: int = 64
    """Of the ring of a sliding aggregate at its beginning."""
    view_rows: int = 1 << 16
    """Of an answer that may have ended before it is compacted."""
    view_batch_rows: int = 1 << 12
    """Of a batch, on average, from which an answer keeps it as it is."""
    waiting_rows: int = 1 << 16
    """Of deferred output that are handed over together."""
    waiting_batches: int = 32
    """Of deferred output before it is worth handing over."""
    routed_rows: int = 1 << 12
    """Of a batch that go through the filters of many queries in one order."""
    lineages: int = 1 << 12
    """Lineages of a shared join that may be known though no row has them."""
    direct_values: int = 1 << 13
    """Values between the bounds of many filters up to which each has a place of its own."""
    marked_slots: int = 1 << 12
    """Slots of a join's input on which a predicate is evaluated whatever the number of results."""
    undecoded_rows: int = 1 << 12
    """Of a push that may be kept undecoded."""
    string_bytes: int = 1024
    """Of the string pool at its beginning."""
    string_codes: int = 64
    """The same in strings."""
    swept_strings: int = 4096
    """Of a session from which on those are looked for that no operator holds."""
    aligned_bytes: int = 1 << 16
    """Of an array from which Arrow allocates it."""


DEFAULT = Sizes()
LOWERED = Sizes(
    step_rows=6, sparse_rows=2, slots=2, values=2, stem_rows=2, buckets=2, crowd=1, index_buckets=2, set_outputs=2, join_outputs=2,
    join_pairs=4, fan_outputs=4, far_bytes=64, farther_bytes=256, tree_rows=2, tree_numbers=16,
    tree_results=2, panes=2, ring_members=2, routed_rows=2, lineages=2, direct_values=2, marked_slots=2,
    view_rows=4, view_batch_rows=2, waiting_rows=3, waiting_batches=1, undecoded_rows=2, string_bytes=8,
    string_codes=2, swept_strings=4, aligned_bytes=64,
)  # fmt: skip
"""So small that a few rows cross them all; for tests."""

current = LOWERED if os.environ.get("PENSTOCK_SIZES") == "lowered" else DEFAULT


@contextmanager
def lowered(sizes: Sizes = LOWERED) -> Iterator[None]:
    """Sizes for the sessions that are made and used inside; for tests."""
    global current  # noqa: PLW0603 - one place, read by many modules
    before, current = current, sizes
    try:
        yield
    finally:
        current = before
