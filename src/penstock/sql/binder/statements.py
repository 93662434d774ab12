"""From a statement as written to a statement as meant; the catalog is read, never changed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from penstock.errors import BindError, ParseError, PlanError, StateError
from penstock.plan.catalog import Catalog, Stream, Table
from penstock.plan.nodes import Node, Query, Rank
from penstock.plan.rank_levels import checked_weight, with_rank
from penstock.sql.binder.bound import (
    AlterQuery,
    CreateQuery,
    CreateStream,
    CreateTable,
    DropQuery,
    DropStream,
    DropTable,
    Explain,
    Select,
    Statement,
)
from penstock.sql.binder.from_ import Binding, From, Known, TooLargeError
from penstock.sql.binder.ranks import ranks_of
from penstock.sql.binder.scope import near
from penstock.sql.binder.select import SelectBinder, bind_query, visible
from penstock.sql.binder.units import duration, positive, time_units, type_named, watermark_bounds
from penstock.sql.parser.ast import (
    AlterSyntax,
    Amount,
    ColumnSyntax,
    CreateQuerySyntax,
    CreateStreamSyntax,
    CreateTableSyntax,
    DropSyntax,
    ExplainSyntax,
    Name,
    Parsed,
    QuerySyntax,
    SelectStatementSyntax,
    SelectSyntax,
    Standing,
    ToStreamSyntax,
    WithSyntax,
)
from penstock.sql.parser.dialect import parse
from penstock.sql.parser.source_text import Source, Span
from penstock.types.data_type import Type
from penstock.types.schema import Field, Schema

DEEPEST = 100
"""Operators above each other: plans are walked recursively, five calls a step at the most, and the caller's own stack counts too."""


def bind(parsed: Parsed, catalog: Catalog) -> Statement:
    """The typed statement. Raises BindError, PlanError or ParseError, always with a place."""
    binder = _BINDERS[type(parsed.syntax)]
    try:
        return binder(parsed.syntax, parsed.source, catalog)
    except RecursionError:
        raise _too_deep(parsed) from None


def bind_alter(parsed: Parsed, catalog: Catalog, query_text: str) -> AlterQuery:
    """ALTER QUERY with its criteria bound over the FROM of the query whose text is given."""
    syntax = parsed.syntax
    assert isinstance(syntax, AlterSyntax)
    if syntax.ranks is None:
        return _alter(syntax, parsed.source, catalog)
    target = parse(query_text)[0]
    assert isinstance(target.syntax, SelectStatementSyntax | CreateQuerySyntax | ExplainSyntax)
    try:
        standing = target.syntax.query
        known = Binding(target.source, catalog, standing.tail.window, share=True)
        found = _ranked_from(standing, known)
        if found is None:
            span = syntax.ranks[0].span
            raise parsed.source.error(PlanError, "RANK needs a query that is one SELECT", span)
        ranks = ranks_of(syntax.ranks, found, Binding(parsed.source, catalog, time=known.time))
    except RecursionError:
        raise _too_deep(parsed) from None
    return AlterQuery(syntax.name.text, None, ranks, found.node().schema)


def altered(query: Query, statement: AlterQuery) -> Query:
    """The query by another lifespan or by other ranks. Whether results say their rank was settled when it was registered."""
    if statement.lifespan is not None:
        query = replace(query, lifespan=statement.lifespan)
    if statement.ranks is not None:
        root = with_rank(query.root, statement.ranks if query.ranks else ())
        query = replace(query, root=root, ranks=statement.ranks, over=statement.over)
    return query


def _too_deep(parsed: Parsed) -> ParseError:
    span = Span(parsed.span.start, parsed.span.start + 1)
    hint = "give the inner parts names with WITH"
    return parsed.source.error(ParseError, "the statement is nested too deeply", span, hint)


# -- queries ---------------------------------------------------------------------------------------------


def _standing(standing: Standing, source: Source, catalog: Catalog) -> Query:
    """With common table expressions written out; if that makes the query large, with each of them planned once."""
    with suppress(TooLargeError):
        return _bound(standing, source, catalog, share=False)
    return _bound(standing, source, catalog, share=True)


def _bound(standing: Standing, source: Source, catalog: Catalog, *, share: bool) -> Query:
    tail = standing.tail
    binding = Binding(source, catalog, tail.window, share=share)
    body = standing.body
    if isinstance(body, ToStreamSyntax):
        body = ToStreamSyntax(body.kind, body.query, type(tail)(), body.span)
    root = bind_query(body, binding, {})
    if binding.time is None:
        hint = "a table alone has nothing to wait for; name a stream in FROM"
        raise source.error(PlanError, "the query reads no stream", body.span, hint)
    if _depth(root) > DEEPEST:
        hint = "ask for less at once, or in several queries"
        raise source.error(PlanError, f"the plan is more than {DEEPEST} operators deep", body.span, hint)
    if tail.window is not None:
        positive(tail.window, binding.time, "the length of a window", source)
    lifespan = None if tail.lifespan is None else _lifespan(tail.lifespan, binding.time, source)
    ranks: tuple[Rank, ...] = ()
    over: Schema = ()
    if tail.ranks:
        found = _ranked_from(standing, Binding(source, catalog, tail.window, share=share))
        if found is None:
            hint = "criteria are read over one FROM; rank the parts, or wrap them in SELECT * FROM (...)"
            raise source.error(PlanError, "RANK needs a query that is one SELECT", tail.ranks[0].span, hint)
        ranks, over = ranks_of(tail.ranks, found, binding), found.node().schema
    return Query(with_rank(root, ranks), standing.text, lifespan, ranks, over)


def _depth(root: Node) -> int:
    """How many operators stand above each other."""
    deep, level = 0, [root]
    while level:
        below = {id(one): one for node in level for one in node.inputs}
        deep, level = deep + 1, list(below.values())
    return deep


def _lifespan(amount: Amount, time: Type | None, source: Source) -> int:
    """A unit always makes microseconds: lifespans are measured on the wall clock."""
    if time is Type.TIMESTAMP and amount.unit is None:
        positive(amount, time, "the lifespan", source)
    value = duration(amount, source)
    if value <= 0:
        raise source.error(BindError, "the lifespan must be positive", amount.span)
    return value


def _ranked_from(standing: Standing, binding: Binding) -> From | None:
    """The FROM whose columns the criteria of a query can name; None if it is not one SELECT."""
    body: QuerySyntax = standing.body
    commons: dict[str, Known] = {}
    while not isinstance(body, SelectSyntax):
        if isinstance(body, WithSyntax):
            commons = visible(body, commons, binding.source)
        elif not isinstance(body, ToStreamSyntax):
            return None
        body = body.query
    return SelectBinder(body, binding, commons).inputs()


# -- statements ------------------------------------------------------------------------------------------


def _create_stream(syntax: CreateStreamSyntax, source: Source, catalog: Catalog) -> Statement:
    schema = _schema(syntax.name, syntax.columns, source, catalog)
    names = [field.name.lower() for field in schema]
    told = syntax.watermark
    if told.time.key not in names:
        hint = near(told.time.text, [field.name for field in schema], "the columns")
        raise source.error(BindError, f"no column {told.time.text}", told.time.span, hint)
    time = names.index(told.time.key)
    kind = schema[time].type
    if kind not in (Type.BIGINT, Type.TIMESTAMP):
        raise source.error(
            BindError,
            f"the time column {told.time.text} is {kind}",
            told.time.span,
            "time is BIGINT (plain units) or TIMESTAMP",
        )
    delay = time_units(told.delay, kind, "the delay", source)
    if delay < 0:
        raise source.error(BindError, "the delay cannot be negative", told.delay.span)
    storage = syntax.storage
    stream = Stream(syntax.name.text, schema, time, delay, storage.format, storage.options)
    ahead, idle, unit = watermark_bounds(told, kind, source)
    return CreateStream(replace(stream, ahead=ahead, idle=idle, unit=unit))


def _create_table(syntax: CreateTableSyntax, source: Source, catalog: Catalog) -> Statement:
    schema = _schema(syntax.name, syntax.columns, source, catalog)
    storage = syntax.storage
    return CreateTable(Table(syntax.name.text, schema, syntax.retroactive, storage.format, storage.options))


def _schema(name: Name, columns: tuple[ColumnSyntax, ...], source: Source, catalog: Catalog) -> Schema:
    for kind, taken in (("stream", catalog.streams), ("table", catalog.tables)):
        if name.key in taken:
            raise source.error(
                BindError, f"there is already a {kind} {name.text}", name.span, "choose another name"
            )
    if name.text.startswith("__"):
        raise source.error(BindError, f"{name.text} begins with __", name.span, "such names are the engine's")
    fields: dict[str, Field] = {}
    for column in columns:
        if column.name.key in fields:
            raise source.error(BindError, f"column {column.name.text} stands twice", column.name.span)
        if column.name.text.startswith("__"):
            hint = "such names are the engine's"
            raise source.error(BindError, f"column {column.name.text} begins with __", column.name.span, hint)
        fields[column.name.key] = Field(column.name.text, type_named(column.type, source))
    return tuple(fields.values())


def _create_query(syntax: CreateQuerySyntax, source: Source, catalog: Catalog) -> Statement:
    return CreateQuery(syntax.name.text, _standing(syntax.query, source, catalog))


def _drop(syntax: DropSyntax, source: Source, catalog: Catalog) -> Statement:
    if syntax.kind == "QUERY":
        return DropQuery(syntax.name.text)
    kind, taken = ("stream", catalog.streams) if syntax.kind == "STREAM" else ("table", catalog.tables)
    if syntax.name.key not in taken:
        hint = near(syntax.name.text, [s.name for s in taken.values()], f"the {kind}s")
        raise source.error(BindError, f"no {kind} {syntax.name.text}", syntax.name.span, hint)
    name = taken[syntax.name.key].name
    return DropStream(name) if kind == "stream" else DropTable(name)


def _explain(syntax: ExplainSyntax, source: Source, catalog: Catalog) -> Statement:
    return Explain(_standing(syntax.query, source, catalog), syntax.analyze)


def _select(syntax: SelectStatementSyntax, source: Source, catalog: Catalog) -> Statement:
    return Select(_standing(syntax.query, source, catalog))


def _alter(syntax: AlterSyntax, source: Source, catalog: Catalog) -> AlterQuery:
    del catalog
    if syntax.weight is not None:
        return AlterQuery(syntax.name.text, weight=_weight(syntax.weight, source))
    if syntax.lifespan is None:
        return AlterQuery(syntax.name.text, sets_ranks=True)
    return AlterQuery(syntax.name.text, _lifespan(syntax.lifespan, None, source))


def _weight(name: Name, source: Source) -> float:
    try:
        return checked_weight(float(name.text))
    except StateError as error:
        raise source.error(BindError, error.message, name.span, error.hint or "") from None
    except ValueError:
        raise source.error(BindError, f"{name.text} is not a number", name.span) from None


_BINDERS: dict[type, Callable[[Any, Source, Catalog], Statement]] = {
    CreateStreamSyntax: _create_stream,
    CreateTableSyntax: _create_table,
    CreateQuerySyntax: _create_query,
    DropSyntax: _drop,
    ExplainSyntax: _explain,
    SelectStatementSyntax: _select,
    AlterSyntax: _alter,
}
