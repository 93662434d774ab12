"""The algebra: immutable nodes that refuse to be ill-formed.

A node knows its inputs and its output schema, and nothing of how it is run. The binder builds
`Scan → Window → Join → Filter → Aggregate → Filter (HAVING) → Project → Distinct → set operations`;
rules move things about; `operators` run them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from penstock.plan.catalog import Stream, Table
from penstock.plan.expressions import (
    Aggregation,
    Column,
    Expression,
    Literal,
    Named,
    columns,
    rewrite,
    shifted,
)
from penstock.plan.windows import Window
from penstock.types.data_type import Type
from penstock.types.schema import Field, Schema


@dataclass(frozen=True, slots=True)
class Scan:
    """All rows of a base stream, in event-time order."""

    stream: Stream
    alias: str

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @property
    def schema(self) -> Schema:
        return tuple(Field(f.name, f.type, self.alias) for f in self.stream.schema)


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as it is (retroactive) or as it was at a result's ts (NRR); only joins read it."""

    table: Table
    alias: str

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @property
    def schema(self) -> Schema:
        return tuple(Field(f.name, f.type, self.alias) for f in self.table.schema)


@dataclass(frozen=True, slots=True)
class Windowed:
    """Gives each row of a stream (or of a MONOTONIC subquery) its lifetime."""

    input: Node
    window: Window

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, slots=True)
class Filter:
    """Rows for which the predicate is true (not false, not NULL)."""

    input: Node
    predicate: Expression

    def __post_init__(self) -> None:
        if self.predicate.type not in (Type.BOOLEAN, Type.NULL):
            raise ValueError("a predicate is BOOLEAN")

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, slots=True)
class Project:
    """Computed columns. `alias` qualifies them when the projection is a subquery in FROM."""

    input: Node
    outputs: tuple[Named, ...]
    alias: str = ""

    def __post_init__(self) -> None:
        if not self.outputs:
            raise ValueError("a projection has at least one column")

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def schema(self) -> Schema:
        return tuple(Field(n.name, n.expression.type, self.alias) for n in self.outputs)


@dataclass(frozen=True, slots=True)
class Join:
    """Inner join of two or more inputs; predicates are conjuncts over the inputs' schemas side by side."""

    inputs: tuple[Node, ...]
    predicates: tuple[Expression, ...] = ()

    def __post_init__(self) -> None:
        if len(self.inputs) < 2:
            raise ValueError("a join has at least two inputs")

    @property
    def schema(self) -> Schema:
        return tuple(f for node in self.inputs for f in node.schema)


@dataclass(frozen=True, slots=True)
class AntiJoin:
    """Left rows without a live right row that satisfies every predicate (NOT EXISTS, LEFT ANTI JOIN)."""

    left: Node
    right: Node
    predicates: tuple[Expression, ...] = ()
    """Over left's schema followed by right's."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @property
    def schema(self) -> Schema:
        return self.left.schema


@dataclass(frozen=True, slots=True)
class OuterJoin:
    """Pairs that satisfy every predicate, and rows without a partner beside NULLs (LEFT, RIGHT, FULL).

    One node with each input once, so that plans grow with the text; `branches` says what it means.
    """

    left: Node
    right: Node
    predicates: tuple[Expression, ...]
    """Over left's schema followed by right's."""
    keeps_left: bool
    """Whether left rows without a partner are results."""
    keeps_right: bool
    schema: Schema = field(init=False, repr=False, compare=False)
    branches: Union = field(init=False, repr=False, compare=False)
    """The same as the union of a join and anti joins, over the very same inputs: what runs."""

    def __post_init__(self) -> None:
        if not (self.keeps_left or self.keeps_right):
            raise ValueError("an outer join keeps rows of one side at least")
        object.__setattr__(self, "schema", self.left.schema + self.right.schema)
        object.__setattr__(self, "branches", _branches(self))

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @property
    def kind(self) -> str:
        if self.keeps_left and self.keeps_right:
            return "full"
        return "left" if self.keeps_left else "right"


@dataclass(frozen=True, slots=True)
class Distinct:
    """One row per value (NULLs are equal here)."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """A subplan that several nodes read and that is planned and run once. Equal to itself alone."""

    input: Node
    name: str
    """Of the common table expression that it is."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, slots=True)
class Union:
    """Merge-union: UNION ALL of two or more inputs of equal types. (UNION is Distinct of it.)"""

    inputs: tuple[Node, ...]

    def __post_init__(self) -> None:
        same_types("UNION", self.inputs)

    @property
    def schema(self) -> Schema:
        return self.inputs[0].schema


@dataclass(frozen=True, slots=True)
class Intersect:
    """INTERSECT, or min(v1, v2) copies with `all`."""

    left: Node
    right: Node
    all: bool = False

    def __post_init__(self) -> None:
        same_types("INTERSECT", self.inputs)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @property
    def schema(self) -> Schema:
        return self.left.schema


@dataclass(frozen=True, slots=True)
class Except:
    """EXCEPT, or the max(v1 - v2, 0) youngest left copies with `all` (the papers' negation, Eq. 1)."""

    left: Node
    right: Node
    all: bool = False

    def __post_init__(self) -> None:
        same_types("EXCEPT", self.inputs)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @property
    def schema(self) -> Schema:
        return self.left.schema


@dataclass(frozen=True, slots=True)
class Aggregate:
    """GROUP BY: the keys, then the aggregates. No keys: one row, always there."""

    input: Node
    keys: tuple[Named, ...]
    aggregations: tuple[Aggregation, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def schema(self) -> Schema:
        keys = tuple(Field(k.name, k.expression.type) for k in self.keys)
        return keys + tuple(Field(str(a), a.type) for a in self.aggregations)


@dataclass(frozen=True, slots=True)
class Reliable:
    """The answers of a GROUP BY from as many levels, best first, as make a reliable sample (`plan.sample_columns`).

    Keys and aggregates, then: `__rank` of the best row used, `__subsets` (a bit a level, insignificant rows last), how many rows
    there would have been in these levels and how many there were, the bounds of every aggregate, and what share of the whole
    group was shed.
    """

    rows: Node
    """What was processed: the keys, the level, and `plan.sampling.parts` of the aggregates."""
    expired: Node
    """The keys, the level, and the estimated number of rows that were not processed, with its variance."""
    keys: int
    aggregations: tuple[Aggregation, ...]
    """Of the query; over what lies below `rows`."""
    levels: int
    error: float
    relative: bool

    def __post_init__(self) -> None:
        if not 1 <= self.levels <= 62:
            raise ValueError("there are 1 to 62 levels")
        if not self.error >= 0.0:
            raise ValueError("an error is not negative")
        rows, expired = ([f.type for f in one.schema[: self.keys + 1]] for one in self.inputs)
        if rows != expired or rows[-1] is not Type.INT:
            raise ValueError("a sample and its estimates have the same keys, and a level (INT)")

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.rows, self.expired)

    @property
    def schema(self) -> Schema:
        keys = tuple(Field(f.name, f.type) for f in self.rows.schema[: self.keys])
        about = (
            Field("__rank", Type.INT),
            Field("__subsets", Type.STRING),
            Field("__population", Type.DOUBLE),
            Field("__sample", Type.BIGINT),
        )
        bounds = tuple(
            Field(f"{a}__{end}", a.type if a.function in ("min", "max") else Type.DOUBLE)
            for a in self.aggregations
            for end in ("low", "high")
        )
        answers = tuple(Field(str(a), a.type) for a in self.aggregations)
        return (*keys, *answers, *about, *bounds, Field("__shed", Type.DOUBLE))


class StreamKind(Enum):
    ISTREAM = "ISTREAM"
    DSTREAM = "DSTREAM"
    RSTREAM = "RSTREAM"


@dataclass(frozen=True, slots=True)
class ToStream:
    """ISTREAM (what came), DSTREAM (what went), RSTREAM (all of it whenever it changes) of a relation."""

    input: Node
    kind: StreamKind

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def schema(self) -> Schema:
        return self.input.schema


Node = (
    Scan | Relation | Windowed | Filter | Project | Join | AntiJoin | OuterJoin | Distinct
    | Shared | Union | Intersect | Except | Aggregate | Reliable | ToStream
)  # fmt: skip


def _branches(node: OuterJoin) -> Union:
    left, right = node.left, node.right
    wide, narrow = len(left.schema), len(right.schema)
    found: list[Node] = [_pairs(node, wide)]
    if node.keeps_left:
        found.append(
            Project(AntiJoin(left, right, node.predicates), _columns(left.schema) + _nulls(right.schema))
        )
    if node.keeps_right:

        def swapped(column: Column) -> Column:
            index = column.index + narrow if column.index < wide else column.index - wide
            return Column(index, column.type, column.name)

        predicates = tuple(rewrite(p, swapped) for p in node.predicates)
        found.append(Project(AntiJoin(right, left, predicates), _nulls(left.schema) + _columns(right.schema)))
    return Union(tuple(found))


def _pairs(node: OuterJoin, wide: int) -> Join:
    """What concerns one side alone is asked below the join, as joins expect it."""
    left, right = node.left, node.right
    both = []
    for predicate in node.predicates:
        read = [c.index for c in columns(predicate)]
        if read and max(read) < wide:
            left = Filter(left, predicate)
        elif read and min(read) >= wide:
            right = Filter(right, shifted(predicate, -wide))
        else:
            both.append(predicate)
    return Join((left, right), tuple(both))


def _columns(schema: Schema) -> tuple[Named, ...]:
    return tuple(Named(Column(i, f.type, f.name), f.name) for i, f in enumerate(schema))


def _nulls(schema: Schema) -> tuple[Named, ...]:
    return tuple(Named(Literal(None, f.type), f.name) for f in schema)


def same_types(what: str, inputs: tuple[Node, ...]) -> None:
    """Set operations work on columns of equal types; the binder has cast them by now."""
    first = [f.type for f in inputs[0].schema]
    if len(inputs) < 2 or any([f.type for f in node.schema] != first for node in inputs[1:]):
        raise ValueError(f"{what} takes inputs with the same column types")


@dataclass(frozen=True, slots=True)
class Cover:
    """`COVER EVERY every BY columns`: in every such span of event time each object, a value of the columns, is worked on once at least.

    The columns are of the stream that the rank's criteria read.
    """

    every: int
    by: tuple[Column, ...]

    def __str__(self) -> str:
        return f"every {', '.join(map(str, self.by))} once in {self.every}"


@dataclass(frozen=True, slots=True)
class Rank:
    """`RANK level CRITERIA (criteria) [COVER …]`: bound over the FROM inputs' schemas side by side."""

    level: int
    criteria: Expression
    cover: Cover | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A standing query: its plan and its P-CQL clauses (`lifespan` in time units)."""

    root: Node
    text: str
    lifespan: int | None = None
    ranks: tuple[Rank, ...] = ()
    over: Schema = ()
    """The columns that the ranks' criteria are over."""
