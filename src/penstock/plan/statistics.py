"""What is known of the data when a plan is chosen: measured where somebody measured, else plain guesses.

Numbers only, so that a runtime can fill them as it goes and a test can write them down. Nothing here can change an
answer: every plan that rules choose between is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.plan.catalog import Stream, Table
from penstock.types.data_type import Type
from penstock.types.event_time import MICROSECONDS

DISTINCT = 100.0
"""Values of a column of which nothing is known."""

ROWS = 1000.0
"""Rows of a table of which nothing is known."""

RANGE_SHARE = 0.1
"""Rows that pass a comparison with `<`, a LIKE, a BETWEEN."""

HALF = 0.5
"""Rows that pass a predicate of which nothing can be said, such as a Python function."""

NULL_SHARE = 0.05
"""Rows that are NULL in a column."""

MOST_MATCHES = 0.9
"""Left rows of an anti join with a match, at most, while nobody has counted: keys of two streams seldom agree wholly."""

HORIZON = 10_000.0
"""Time units (seconds, where time is a TIMESTAMP) after which a plan is judged: what never ends has grown that long."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Streams, tables and columns by their names in lower case.

    >>> from penstock.types.schema import Field
    >>> a = Stream("A", (Field("ts", Type.BIGINT), Field("x", Type.INT)), 0)
    >>> known = Statistics(rates={"a": 3.0}, distincts={("a", "x"): 7.0})
    >>> known.rate(a), known.distinct(a, 1), Statistics().rate(a), Statistics().distinct(a, 1)
    (3.0, 7.0, 1.0, 100.0)
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    """Rows of a stream per time unit (microseconds, where time is a TIMESTAMP)."""
    distincts: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """How many values (stream or table, column) takes over time."""
    selectivities: Mapping[str, float] = field(default_factory=dict)
    """Share of rows (of a join: of pairs) that pass, by the fingerprint of the selection or by the predicate's text."""
    matches: Mapping[str, float] = field(default_factory=dict)
    """Share of an anti join's left rows that have a match, by its fingerprint or its predicates' text."""
    sizes: Mapping[str, float] = field(default_factory=dict)
    """Rows of a table."""

    def rate(self, stream: Stream) -> float:
        """All streams alike if nobody has counted: a row per time unit, or per second."""
        return self.rates.get(stream.name.lower(), 1.0 / unit(stream))

    def size(self, table: Table) -> float:
        return self.sizes.get(table.name.lower(), ROWS)

    def distinct(self, source: Stream | Table, column: int) -> float:
        """How many values a column takes; a time column ever new ones."""
        one = source.schema[column]
        found = self.distincts.get((source.name.lower(), one.name.lower()))
        if found is not None:
            return max(found, 1.0)
        if one.type is Type.BOOLEAN:
            return 2.0
        if isinstance(source, Stream) and column == source.time:
            return HORIZON * unit(source)
        return DISTINCT


def unit(stream: Stream) -> int:
    """A second of a TIMESTAMP, else one."""
    return MICROSECONDS["SECOND"] if stream.time_type is Type.TIMESTAMP else 1
