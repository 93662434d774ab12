"""Trees of joins that keep their partial results: which shape, and which of them are made (Yang & Papadias 2008).

None of it changes an answer: a tree remembers what a join without one finds anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from penstock.errors import StateError

Pairs = int | tuple["Pairs", "Pairs"]
"""An input's number, or two trees that are joined."""


class Shape(Enum):
    """How a tree is built over the inputs as they are written.

    >>> Shape.LEFT_DEEP.over(4)
    (((0, 1), 2), 3)
    >>> Shape.RIGHT_DEEP.over(4)
    (0, (1, (2, 3)))
    >>> Shape.BUSHY.over(7)
    (((0, 1), (2, 3)), ((4, 5), 6))
    """

    LEFT_DEEP = "left-deep"
    RIGHT_DEEP = "right-deep"
    BUSHY = "bushy"

    def over(self, inputs: int) -> Pairs:
        return self._between(0, inputs)

    def _between(self, first: int, last: int) -> Pairs:
        count = last - first
        if count == 1:
            return first
        if self is Shape.LEFT_DEEP:
            middle = last - 1
        elif self is Shape.RIGHT_DEEP:
            middle = first + 1
        else:
            middle = first + (1 << (count - 1).bit_length() - 1)
        return self._between(first, middle), self._between(middle, last)


class Demand(Enum):
    """Which partial results are made.

    OFF  all of them (the paper's REF)
    DOE  none while a source that they would have to meet is empty
    JIT  none that a source outside holds no partner for now

    A tree sets aside what it does not make; a join without one drops it, and whoever was missing finds it on a walk of its own.
    """

    OFF = "off"
    DOE = "doe"
    JIT = "jit"


@dataclass(frozen=True, slots=True)
class Tree:
    """`pairs`: a shape of one's own, for joins of as many inputs. `nested`: states are searched, not looked up."""

    shape: Shape = Shape.LEFT_DEEP
    nested: bool = False
    pairs: Pairs | None = None

    def __post_init__(self) -> None:
        if self.pairs is not None and sorted(leaves(self.pairs)) != list(
            range(len(list(leaves(self.pairs))))
        ):
            raise StateError(f"{self.pairs} is no tree over inputs that count from 0")

    def __str__(self) -> str:
        shape = self.shape.value if self.pairs is None else str(self.pairs)
        return f"{shape}{', nested' if self.nested else ''}"

    def over(self, inputs: int) -> Pairs:
        if self.pairs is not None and len(list(leaves(self.pairs))) == inputs:
            return self.pairs
        return self.shape.over(inputs)

    def json(self) -> dict[str, Any]:
        return {**asdict(self), "shape": self.shape.value}

    @classmethod
    def of(cls, told: dict[str, Any]) -> Tree:
        pairs = None if told["pairs"] is None else pairs_of(told["pairs"])
        return cls(Shape(told["shape"]), told["nested"], pairs)


def pairs_of(told: Any) -> Pairs:
    """Nested pairs of numbers, given as lists or tuples."""
    if isinstance(told, int) and not isinstance(told, bool):
        return told
    if isinstance(told, list | tuple) and len(told) == 2:
        return pairs_of(told[0]), pairs_of(told[1])
    raise StateError(f"{told!r} is neither an input's number nor a pair", hint="for example ((0, 1), (2, 3))")


def leaves(pairs: Pairs) -> Iterator[int]:
    """The inputs of a tree, from left to right."""
    if isinstance(pairs, int):
        yield pairs
    else:
        yield from leaves(pairs[0])
        yield from leaves(pairs[1])
