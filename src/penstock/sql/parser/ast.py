"""The shape of statements as written: names and clauses with their spans, nothing resolved.

Scalar expressions stay sqlglot's; everything around them has our own clauses (windows, watermarks,
ranks), so it has our own, typed, closed set of shapes.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from penstock.errors import PenstockError
from penstock.sql.parser.source_text import Source, Span


@dataclass(frozen=True, slots=True)
class Name:
    text: str
    span: Span

    @property
    def key(self) -> str:
        """Names are case-insensitive; this is what they are compared by."""
        return self.text.lower()


@dataclass(frozen=True, slots=True)
class Amount:
    """`100`, or `5 MINUTES`: a whole number, with the unit as written in upper case or None."""

    value: int
    unit: str | None
    span: Span


@dataclass(frozen=True, slots=True)
class WindowSyntax:
    """`[kind ...]`: RANGE has a length and maybe a slide, ROWS a count and maybe partitioning columns."""

    kind: str
    span: Span
    length: Amount | None = None
    slide: Amount | None = None
    partition: tuple[exp.Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedInput:
    """A stream, a table or a CTE in FROM."""

    name: Name
    window: WindowSyntax | None
    alias: Name | None
    span: Span


@dataclass(frozen=True, slots=True)
class QueryInput:
    """`(SELECT ...) AS v` or `ISTREAM(SELECT ...) [RANGE 5] AS v` in FROM."""

    query: QuerySyntax
    window: WindowSyntax | None
    alias: Name | None
    span: Span


@dataclass(frozen=True, slots=True)
class JoinInput:
    """`left kind JOIN right ON on | USING (using)`; kind is INNER, CROSS, LEFT, RIGHT, FULL or ANTI."""

    left: InputSyntax
    right: InputSyntax
    kind: str
    on: exp.Expr | None
    using: tuple[Name, ...]
    span: Span


InputSyntax = NamedInput | QueryInput | JoinInput


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a select list; a star is an `exp.Star`, or an `exp.Column` of one."""

    expression: exp.Expr
    alias: Name | None
    span: Span


@dataclass(frozen=True, slots=True)
class SelectSyntax:
    distinct: bool
    items: tuple[Item, ...]
    inputs: tuple[InputSyntax, ...]
    where: exp.Expr | None
    group: tuple[exp.Expr, ...] | None
    having: exp.Expr | None
    span: Span


@dataclass(frozen=True, slots=True)
class SetSyntax:
    """`left UNION | INTERSECT | EXCEPT [ALL] right`."""

    kind: str
    all: bool
    left: QuerySyntax
    right: QuerySyntax
    span: Span


@dataclass(frozen=True, slots=True)
class Common:
    """`name [(columns)] AS (query)` of a WITH clause."""

    name: Name
    columns: tuple[Name, ...]
    query: QuerySyntax


@dataclass(frozen=True, slots=True)
class WithSyntax:
    commons: tuple[Common, ...]
    query: QuerySyntax
    span: Span


@dataclass(frozen=True, slots=True)
class ToStreamSyntax:
    """`ISTREAM(query)`; the P-CQL clauses may stand inside the parentheses of a whole query."""

    kind: str
    query: QuerySyntax
    tail: Tail
    span: Span


QuerySyntax = SelectSyntax | SetSyntax | WithSyntax | ToStreamSyntax


@dataclass(frozen=True, slots=True)
class CoverSyntax:
    """`COVER EVERY every BY columns`."""

    every: Amount
    by: tuple[exp.Expr, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class RankSyntax:
    level: Amount
    criteria: exp.Expr
    span: Span
    cover: CoverSyntax | None = None


@dataclass(frozen=True, slots=True)
class Tail:
    """The clauses after the query: default window, lifespan, ranks."""

    window: Amount | None = None
    lifespan: Amount | None = None
    ranks: tuple[RankSyntax, ...] = ()
    span: Span | None = None
    """Of the first clause; None when there is none."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A whole query: body, clauses, and its text for EXPLAIN and for registering it again."""

    body: QuerySyntax
    tail: Tail
    text: str


@dataclass(frozen=True, slots=True)
class ColumnSyntax:
    name: Name
    type: Name


@dataclass(frozen=True, slots=True)
class Storage:
    """`USING format OPTIONS (key 'value', ...)`."""

    format: str | None = None
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class WatermarkSyntax:
    """`WATERMARK time [DELAY OF …] [UNIT …] [AHEAD AT MOST … | AHEAD UNLIMITED] [IDLE AFTER …]`."""

    time: Name
    delay: Amount
    unit: Name | None = None
    ahead: Amount | None = None
    unlimited: bool = False
    idle: Amount | None = None


@dataclass(frozen=True, slots=True)
class CreateStreamSyntax:
    name: Name
    columns: tuple[ColumnSyntax, ...]
    storage: Storage
    watermark: WatermarkSyntax


@dataclass(frozen=True, slots=True)
class CreateTableSyntax:
    name: Name
    columns: tuple[ColumnSyntax, ...]
    storage: Storage
    retroactive: bool


@dataclass(frozen=True, slots=True)
class CreateQuerySyntax:
    name: Name
    query: Standing


@dataclass(frozen=True, slots=True)
class DropSyntax:
    kind: str
    name: Name


@dataclass(frozen=True, slots=True)
class ExplainSyntax:
    query: Standing
    analyze: bool


@dataclass(frozen=True, slots=True)
class SelectStatementSyntax:
    query: Standing


@dataclass(frozen=True, slots=True)
class AlterSyntax:
    name: Name
    lifespan: Amount | None
    ranks: tuple[RankSyntax, ...] | None
    weight: Name | None = None
    """The number as written."""


StatementSyntax = (
    CreateStreamSyntax | CreateTableSyntax | CreateQuerySyntax | DropSyntax
    | ExplainSyntax | SelectStatementSyntax | AlterSyntax
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parsed:
    """One statement of a script: its shape, where it stands, and the script its spans point into."""

    syntax: StatementSyntax
    span: Span
    source: Source

    @property
    def text(self) -> str:
        return self.source.cut(self.span)

    def placed(self, error: PenstockError) -> PenstockError:
        """The error at this statement, unless it knows its place already."""
        if error.line is not None:
            return error
        return self.source.error(type(error), error.message, self.span, error.hint or "")
