"""What a confluence knows of its joins and streams: inputs, roles, join attributes, SteMs, parties."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.operators.expressions.evaluator import Computed, Evaluator
from penstock.plan.expressions import Expression
from penstock.sharing.eddy import Member
from penstock.sharing.probe_trees import Shape
from penstock.types.data_type import Type
from penstock.types.schema import Schema

FAR = 1 << 61
"""Longer than every window: UNBOUNDED."""
MANY, RARE, MOST = 1 << 11, 4, 8
"""Lineages from which on, if one row in so many has one of its own, they are noted in parts; and how many parts, at most."""
Key = tuple[str, ...]
"""A join attribute: key expressions as text."""


@dataclass(frozen=True, slots=True)
class Input:
    """What a join reads of a stream."""

    stream: str
    schema: Schema
    predicate: Expression | None
    window: int
    columns: frozenset[int]


@dataclass(frozen=True, slots=True)
class Equality:
    """Key expressions of two inputs that are equal, each over its own stream."""

    left: int
    left_keys: tuple[Expression, ...]
    right: int
    right_keys: tuple[Expression, ...]


@dataclass(slots=True)
class Role:
    """A stream as the k-th that a query reads of it."""

    number: int
    stream: str
    words: list[int]
    """Of the eddy's lineage, in the order of the confluence's."""
    windows: dict[int, int] = field(default_factory=dict)
    """By query."""


@dataclass(slots=True)
class Attribute:
    """An index of a SteM: how keys are computed, and who uses it in which role."""

    keys: tuple[Expression, ...]
    run: list[Computed]
    evaluator: Evaluator
    uses: dict[int, set[int]] = field(default_factory=dict)
    """Queries by role."""

    @property
    def texts(self) -> int:
        """How many keys are strings: their codes must be held while a row is."""
        return sum(key.type is Type.STRING for key in self.keys)


@dataclass(slots=True)
class Stem:
    """What is kept of a stream."""

    stream: str
    schema: Schema
    roles: list[int] = field(default_factory=list)
    attributes: dict[Key, Attribute] = field(default_factory=dict)
    columns: dict[int, int] = field(default_factory=dict)
    """Stored columns, and how many queries read them."""
    apart: bool = False
    """Hardly two rows are wanted by the same queries, so that what each filter says of a row is noted by itself."""
    parts: int = 1
    """Numbers that say together which queries want a row in a role: one, or as many as the stream had filters."""
    rows: int = 0
    different: int = 0
    """Of so many rows: lineages that no row had before."""

    def count(self, rows: int, different: int) -> None:
        """So many more, noted whole."""
        self.rows += rows
        self.different += different
        self.apart = self.different > MANY and RARE * self.different > self.rows

    @property
    def stored(self) -> list[int]:
        return sorted(self.columns)

    @property
    def types(self) -> list[Type]:
        """Of the stored columns, and of the keys that are strings, attribute by attribute."""
        texts = sum(a.texts for a in self.attributes.values())
        return [self.schema[i].type for i in self.stored] + [Type.STRING] * texts


@dataclass(slots=True)
class Party:
    """A join of a query."""

    bit: int
    shape: Shape
    roles: tuple[int, ...]
    """By input."""
    inputs: tuple[Input, ...]
    members: list[Member]
    attributes: list[tuple[str, Key, int]]
    """Stream, join attribute, role."""
