"""SELECT and set operations: from clauses to the layers of a plan.

FROM → Filter (WHERE) → AntiJoin (NOT EXISTS) → Aggregate → Filter (HAVING) → Project → Distinct.
Expressions above an Aggregate are first bound over its input, with each aggregate as one more column;
then whatever equals a key becomes the key's column, and an input column that is left is an error.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from penstock.errors import BindError, PlanError
from penstock.plan.expressions import Call, Column, Expression, Literal, Named, columns, shifted
from penstock.plan.function_signatures import FunctionError, aggregate, cast, common
from penstock.plan.nodes import (
    Aggregate,
    AntiJoin,
    Distinct,
    Except,
    Filter,
    Intersect,
    Node,
    Project,
    StreamKind,
    ToStream,
    Union,
)
from penstock.sql.binder.column_names import distinct_names, name_of
from penstock.sql.binder.expressions import Aggregates, Scalars, chain, conjunction
from penstock.sql.binder.from_ import Binding, From, Inputs, Known
from penstock.sql.binder.scope import Scope
from penstock.sql.parser.ast import (
    Common,
    Item,
    QuerySyntax,
    SelectSyntax,
    SetSyntax,
    ToStreamSyntax,
    WithSyntax,
)
from penstock.sql.parser.expressions import Exists
from penstock.sql.parser.source_text import Source, Span, span_of
from penstock.types.data_type import Type


def bind_query(syntax: QuerySyntax, binding: Binding, commons: dict[str, Known]) -> Node:
    """The plan of a query without its clauses."""
    if isinstance(syntax, WithSyntax):
        return bind_query(syntax.query, binding, visible(syntax, commons, binding.source))
    if isinstance(syntax, SetSyntax):
        return _set_operation(syntax, binding, commons)
    if isinstance(syntax, ToStreamSyntax):
        if syntax.tail.span is not None:
            raise binding.source.error(
                PlanError,
                "this clause belongs to the whole query",
                syntax.tail.span,
                "write it at the very end",
            )
        return ToStream(bind_query(syntax.query, binding, commons), StreamKind(syntax.kind))
    return SelectBinder(syntax, binding, commons).bind()


def visible(syntax: WithSyntax, commons: dict[str, Known], source: Source) -> dict[str, Known]:
    """The common table expressions after this WITH; each sees those before it."""
    seen: dict[str, Common] = {}
    known = dict(commons)
    for one in syntax.commons:
        if one.name.key in seen:
            raise source.error(BindError, f"{one.name.text} is defined twice", one.name.span)
        seen[one.name.key] = one
        known = known | {one.name.key: Known(one, known)}
    return known


# -- set operations --------------------------------------------------------------------------------------


def _set_operation(syntax: SetSyntax, binding: Binding, commons: dict[str, Known]) -> Node:
    """The left spine is walked in a loop: a long chain costs no stack."""
    spine: list[SetSyntax] = []
    first: QuerySyntax = syntax
    while isinstance(first, SetSyntax):
        spine.append(first)
        first = first.left
    built = bind_query(first, binding, commons)
    for step in reversed(spine):
        right = bind_query(step.right, binding, commons)
        built = _combined(step, built, right, binding.source)
    return built


def _combined(step: SetSyntax, left: Node, right: Node, source: Source) -> Node:
    left, right = _alike(step, left, right, source)
    if step.kind == "INTERSECT":
        return Intersect(left, right, step.all)
    if step.kind == "EXCEPT":
        return Except(left, right, step.all)
    if step.all:
        return Union((*_operands(left), right))
    # (a UNION b) UNION c drops duplicates once, at the end.
    before = left.input if isinstance(left, Distinct) and isinstance(left.input, Union) else left
    return Distinct(Union((*_operands(before), right)))


def _operands(node: Node) -> tuple[Node, ...]:
    return node.inputs if isinstance(node, Union) else (node,)


def _alike(step: SetSyntax, left: Node, right: Node, source: Source) -> tuple[Node, Node]:
    """Both sides with columns of the same types, cast where they differ."""
    a, b = left.schema, right.schema
    if len(a) != len(b):
        message = f"{step.kind} of {len(a)} and {len(b)} columns"
        raise source.error(BindError, message, step.right.span, "both sides need the same number of columns")
    targets = []
    for one, other in zip(a, b, strict=True):
        try:
            targets.append(common((one.type, other.type)))
        except FunctionError as error:
            message = f"{step.kind} of {one.name} {one.type} and {other.name} {other.type}"
            raise source.error(BindError, message, step.right.span, error.hint) from None
    return _cast_to(left, targets), _cast_to(right, targets)


def _cast_to(node: Node, targets: list[Type]) -> Node:
    if [f.type for f in node.schema] == targets:
        return node
    if isinstance(node, Project):
        outputs = tuple(
            Named(cast(named.expression, target), named.name)
            for named, target in zip(node.outputs, targets, strict=True)
        )
        return Project(node.input, outputs, node.alias)
    outputs = tuple(
        Named(cast(Column(i, f.type, f.name), target), f.name)
        for i, (f, target) in enumerate(zip(node.schema, targets, strict=True))
    )
    return Project(node, outputs)


# -- SELECT ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class SelectBinder:
    """One SELECT."""

    syntax: SelectSyntax
    binding: Binding
    commons: dict[str, Known]

    def bind(self) -> Node:
        found = self.inputs()
        node = self._where(found)
        return self._select(node, found.scope)

    def inputs(self) -> From:
        return Inputs(self.binding, self.commons, bind_query).bind(self.syntax.inputs)

    @property
    def source(self) -> Source:
        return self.binding.source

    # -- WHERE --------------------------------------------------------------------------------------------

    def _where(self, found: From) -> Node:
        node = found.node()
        if self.syntax.where is None:
            return node
        plain, absent = split(self.syntax.where)
        if plain:
            scalars = self.binding.scalars(found.scope, "WHERE")
            scalars.hidden = _aliases(self.syntax)
            node = Filter(node, conjunction([scalars.predicate(part) for part in plain]))
        for query in absent:
            node = self._without(node, found.scope, query)
        return node

    def _without(self, left: Node, outer: Scope, exists: exp.Expr) -> Node:
        """NOT EXISTS (query): rows of `left` for which the query has no row."""
        inner = self._simple(exists)
        binder = SelectBinder(inner, self.binding, self.commons)
        found = binder.inputs()
        scope = found.scope.within(outer)
        self._check_items(inner, scope)
        right, predicates = found.node(), []
        if inner.where is not None:
            plain, absent = split(inner.where)
            scalars = self.binding.scalars(scope, "WHERE")
            for part in plain:
                bound = scalars.predicate(part)
                if all(column.index >= outer.width for column in columns(bound)):
                    right = Filter(right, shifted(bound, -outer.width))
                else:
                    predicates.append(bound)
            for query in absent:
                right = binder._without(right, found.scope, query)
        return AntiJoin(left, right, tuple(predicates))

    def _simple(self, exists: exp.Expr) -> SelectSyntax:
        query: QuerySyntax = exists.this
        if not isinstance(query, SelectSyntax):
            raise self.source.error(
                PlanError,
                "NOT EXISTS takes a plain SELECT",
                query.span,
                "put the rest in a subquery in its FROM",
            )
        if query.group is not None or query.having is not None:
            raise self.source.error(
                PlanError,
                "NOT EXISTS takes no GROUP BY or HAVING",
                query.span,
                "put it in a subquery in its FROM",
            )
        return query

    def _check_items(self, inner: SelectSyntax, scope: Scope) -> None:
        """What NOT EXISTS selects does not matter, but it must mean something."""
        for item in inner.items:
            if not _star(item):
                self.binding.scalars(scope, "the SELECT of NOT EXISTS").bind(item.expression)

    # -- SELECT list, GROUP BY, HAVING ------------------------------------------------------------------

    def _select(self, node: Node, scope: Scope) -> Node:
        syntax = self.syntax
        aggregates = Aggregates(len(node.schema))
        scalars = Scalars(scope, self.binding.catalog, self.source, "SELECT", aggregates)
        outputs: list[Output] = []
        for item in syntax.items:
            outputs += self._outputs(item, scope, scalars)
        having = None
        if syntax.having is not None:
            over = Scalars(scope, self.binding.catalog, self.source, "HAVING", aggregates, _aliases(syntax))
            having = over.predicate(syntax.having)
            scalars.places = over.places | scalars.places
        if syntax.group is not None or aggregates.found or having is not None:
            keys = self._keys(scope)
            if not keys and not aggregates.found:
                aggregates.column(aggregate("count", None))  # HAVING alone: a row with no column is no row
            grouping = Grouping(keys, aggregates, self.source)
            node = Aggregate(node, tuple(keys), tuple(aggregates.found))
            if having is not None:
                assert syntax.having is not None
                node = Filter(node, grouping.above(having, scalars.places, span_of(syntax.having)))
            outputs = [
                Output(grouping.above(o.expression, o.places, o.span), o.name, o.places, o.span)
                for o in outputs
            ]
        names = distinct_names([o.name for o in outputs])
        node = Project(node, tuple(Named(o.expression, n) for o, n in zip(outputs, names, strict=True)))
        return Distinct(node) if syntax.distinct else node

    def _outputs(self, item: Item, scope: Scope, scalars: Scalars) -> list[Output]:
        if _star(item):
            alias = item.expression.text("table") or None
            if alias is not None and not scope.has(alias):
                raise scope.unknown("*", alias, item.span, self.source)
            found = scope.columns(alias)
            return [Output(e, name, {c.index: item.span for c in columns(e)}, item.span) for name, e in found]
        scalars.places = {}
        bound = scalars.bind(item.expression)
        name = item.alias.text if item.alias is not None else name_of(item.expression, self.source)
        if item.alias is not None and name.startswith("__"):
            hint = "names that begin with __ are the engine's"
            raise self.source.error(BindError, f"a column cannot be called {name}", item.alias.span, hint)
        return [Output(bound, name, scalars.places, item.span)]

    def _keys(self, scope: Scope) -> list[Named]:
        keys: list[Named] = []
        for node in self.syntax.group or ():
            inner = node
            while isinstance(inner, exp.Paren):
                inner = inner.this
            if isinstance(inner, exp.Literal) and not inner.is_string:
                hint = "GROUP BY takes expressions; repeat the expression or name its alias"
                raise self.source.error(BindError, "GROUP BY a position", span_of(node), hint)
            scalars = Scalars(
                scope, self.binding.catalog, self.source, "GROUP BY", None, _aliases(self.syntax)
            )
            bound = scalars.bind(node)
            if bound not in [key.expression for key in keys]:
                keys.append(Named(bound, name_of(node, self.source)))
        names = distinct_names([key.name for key in keys])
        return [Named(key.expression, name) for key, name in zip(keys, names, strict=True)]


@dataclass(frozen=True, slots=True)
class Output:
    """A bound entry of the select list, with where its columns were named."""

    expression: Expression
    name: str
    places: dict[int, Span]
    span: Span


@dataclass(frozen=True, slots=True)
class Grouping:
    """Moves expressions from below an Aggregate to above it."""

    keys: list[Named]
    aggregates: Aggregates
    source: Source

    def above(self, expression: Expression, places: dict[int, Span], span: Span) -> Expression:
        if isinstance(expression, Literal):
            return expression
        for index, key in enumerate(self.keys):
            if key.expression == expression:
                return Column(index, expression.type, key.name)
        if isinstance(expression, Column):
            if expression.index >= self.aggregates.base:
                index = len(self.keys) + expression.index - self.aggregates.base
                return Column(index, expression.type, expression.name)
            message = f"column {expression.name} is neither grouped nor aggregated"
            hint = f"add it to GROUP BY, or aggregate it: MAX({expression.name})"
            raise self.source.error(BindError, message, places.get(expression.index, span), hint)
        arguments = tuple(self.above(part, places, span) for part in expression.arguments)
        return Call(expression.function, arguments, expression.type)


def split(where: exp.Expr) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """The conjuncts of WHERE: plain ones, and the queries of NOT EXISTS."""
    plain: list[exp.Expr] = []
    absent: list[exp.Expr] = []
    for part in chain(where, exp.And):
        inner = _bare(part)
        negated = _bare(inner.this) if isinstance(inner, exp.Not) else None
        if isinstance(negated, Exists):
            absent.append(negated)
        else:
            plain.append(part)
    return plain, absent


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _star(item: Item) -> bool:
    node = item.expression
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _aliases(syntax: SelectSyntax) -> dict[str, exp.Expr]:
    return {item.alias.key: item.expression for item in syntax.items if item.alias is not None}
