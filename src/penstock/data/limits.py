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


def check_results(rows: int) -> None:
    """Whether a join may go on after so many results of one step."""
    if rows > RESULT_ROWS:
        raise StateError(
            f"a join makes more than {RESULT_ROWS:,} rows in one step",
            hint="join on more columns, or over shorter windows",
        )
