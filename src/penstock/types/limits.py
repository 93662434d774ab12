"""What one query may ask for: beyond it there is an error instead of a machine without memory or time.

Unlike `sizes` these are part of what users see; `docs/sql.md` lists them.
"""

from __future__ import annotations

from penstock.errors import StateError

TEXT_BYTES = 1 << 24
"""Of a text that a function makes."""

RESULT_ROWS = 1 << 27
"""That one join makes in one step."""
PLAN_SECONDS = 60.0
"""Of processor time, to plan a query."""


class ResultLimitError(StateError):
    """A join makes more rows in one step than RESULT_ROWS."""

    def __init__(self, join: str = "a join") -> None:
        super().__init__(
            f"{join} makes more than {RESULT_ROWS:,} rows in one step",
            hint="join on more columns, or over shorter windows; rows that come in smaller batches make smaller steps",
        )

    def of(self, query: str) -> ResultLimitError:
        """The same error of a query, by its name."""
        return ResultLimitError(f"a join of query {query}")


class MemoryLimitError(StateError):
    """A query remembers more than `connect(query_bytes=…)` allows."""

    def __init__(self, query: str, held: int, most: int) -> None:
        super().__init__(
            f"query {query} remembers {held:,} bytes, more than connect(query_bytes={most:,}) allows",
            hint="give its streams shorter windows, or connect with more",
        )
        self._held, self._most = held, most

    def of(self, query: str) -> MemoryLimitError:
        """The same error of a query, by its name."""
        return MemoryLimitError(query, self._held, self._most)


def check_results(rows: int) -> None:
    """Whether a join may go on after so many results of one step."""
    if rows > RESULT_ROWS:
        raise ResultLimitError
