"""What some operators can do besides: say what they hold, what they make, what passes them, and what is alive on their inputs.

EXPLAIN, statistics, migration and memory ask for these; an operator without them has nothing to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from penstock.types.batch import Batch


class Holding(NamedTuple):
    """What an operator remembers of something, in which structure, and how many rows of it now."""

    what: str
    structure: str
    rows: int


@runtime_checkable
class Holds(Protocol):
    """An operator that remembers."""

    def holdings(self) -> list[Holding]: ...


@runtime_checkable
class Counts(Protocol):
    """An operator that makes partial results."""

    def counted(self) -> dict[str, int]:
        """`made` so far, `suppressed` because nobody supports them, questions `asked` to know; what is not counted is not there."""
        ...


class Share:
    """How many of the rows (or pairs) that were tested passed, of late."""

    __slots__ = ("passed", "tested")
    RECENT = 1 << 20

    def __init__(self) -> None:
        self.tested = self.passed = 0.0

    def count(self, tested: float, passed: float) -> None:
        if self.tested > self.RECENT:
            self.tested, self.passed = self.tested / 2, self.passed / 2
        self.tested += tested
        self.passed += passed

    @property
    def value(self) -> float | None:
        return self.passed / self.tested if self.tested else None


@runtime_checkable
class Measures(Protocol):
    """An operator that counts what passes its predicates."""

    def shares(self) -> dict[str, float]:
        """By a predicate's text: the share of rows, or of pairs, that pass."""
        ...


@runtime_checkable
class Remembers(Protocol):
    """An operator that can say what is alive on an input, so that another can take its place."""

    def alive(self, which: int, now: int) -> Batch | None:
        """The rows of an input, with the columns that are read of them; None: not all are known."""
        ...


@runtime_checkable
class Shrinks(Protocol):
    """An operator whose room grows with what it remembers."""

    def shrink(self, coming: int) -> None:
        """Give back room that neither what is remembered nor so many new rows need. Between steps."""
        ...


@runtime_checkable
class TakesIn(Protocol):
    """An operator that can begin with rows without working out what they make."""

    def take_in(self, inputs: Sequence[Batch], now: int) -> None: ...
