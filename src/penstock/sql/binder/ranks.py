"""RANK … CRITERIA … COVER: which results matter most, and which objects must be looked at in every period (Works 2013, §4.1, §9.3).

What COVER promises is counted exactly. So whether a row is of the rank must be known when it comes: the criteria of a rank with
COVER read one stream of the FROM, and tables, as they are then; objects are told apart by columns of that stream.
"""

from __future__ import annotations

from penstock.errors import BindError, PlanError
from penstock.plan.expressions import Column, Expression, columns
from penstock.plan.nodes import Cover, Node, Rank, Relation, Scan, Windowed
from penstock.sql.binder.from_ import Binding, From
from penstock.sql.binder.units import positive
from penstock.sql.parser.ast import CoverSyntax, RankSyntax
from penstock.sql.parser.source_text import span_of


def ranks_of(syntaxes: tuple[RankSyntax, ...], found: From, binding: Binding) -> tuple[Rank, ...]:
    """RANK clauses over the columns of a FROM, best first."""
    source = binding.source
    ranks: list[Rank] = []
    for syntax in syntaxes:
        level = syntax.level.value
        if not 1 <= level <= 127:
            raise source.error(BindError, "ranks go from 1 (best) to 127", syntax.level.span)
        if any(rank.level == level for rank in ranks):
            raise source.error(BindError, f"RANK {level} is given twice", syntax.level.span)
        criteria = binding.scalars(found.scope, "CRITERIA").predicate(syntax.criteria)
        cover = None if syntax.cover is None else _cover(syntax.cover, criteria, found, binding)
        ranks.append(Rank(level, criteria, cover))
    return tuple(sorted(ranks, key=lambda rank: rank.level))


def _cover(syntax: CoverSyntax, criteria: Expression, found: From, binding: Binding) -> Cover:
    source = binding.source
    assert binding.time is not None
    every = positive(syntax.every, binding.time, "the period of COVER", source)
    scalars = binding.scalars(found.scope, "COVER")
    by: list[Column] = []
    for term in syntax.by:
        bound = scalars.bind(term)
        if not isinstance(bound, Column):
            hint = "name a column of the stream"
            raise source.error(BindError, "COVER tells objects apart by columns", span_of(term), hint)
        by.append(bound)
    read = {_input(found, column) for column in columns(criteria)}
    tables = {n for n in read if _is_table(found.nodes[n])}
    streams = read - tables or {_input(found, by[0])}
    node = found.nodes[min(streams)]
    if len(streams) > 1 or not _is_stream(node):
        what = (
            "several inputs"
            if len(streams) > 1
            else "a table"
            if isinstance(node, Relation)
            else "a subquery"
        )
        hint = "criteria of a rank with COVER read one stream, and plain tables: what it promises is counted as rows come"
        raise source.error(PlanError, f"the criteria read {what}", syntax.span, hint)
    for column, term in zip(by, syntax.by, strict=True):
        if {_input(found, column)} != streams:
            message = f"{column.name} is not a column of the stream that the criteria read"
            hint = f"one of {', '.join(field.name for field in node.schema)}"
            raise source.error(BindError, message, span_of(term), hint)
    return Cover(every, tuple(by))


def _input(found: From, column: Column) -> int:
    """Which input of the FROM a column is of."""
    width = 0
    for number, node in enumerate(found.nodes):
        width += len(node.schema)
        if column.index < width:
            return number
    raise AssertionError("columns are of the FROM")


def _is_stream(node: Node) -> bool:
    return isinstance(node, Scan) or (isinstance(node, Windowed) and isinstance(node.input, Scan))


def _is_table(node: Node) -> bool:
    """Whether rows look it up as it is when they come."""
    return isinstance(node, Relation) and not node.table.retroactive
