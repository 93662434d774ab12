"""FROM: streams with their windows, tables, subqueries, and the joins between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sqlglot import exp

from penstock.errors import BindError, PlanError
from penstock.plan.catalog import Catalog, Stream, Table
from penstock.plan.expressions import Column, Expression, Named, columns, shifted
from penstock.plan.function_signatures import FunctionError, call
from penstock.plan.nodes import (
    AntiJoin,
    Filter,
    Join,
    Node,
    OuterJoin,
    Project,
    Relation,
    Scan,
    Shared,
    Windowed,
)
from penstock.plan.update_pattern import is_table
from penstock.plan.windows import Range, Rows, Unbounded, Window
from penstock.sql.binder.expressions import Scalars, chain, conjunction
from penstock.sql.binder.scope import Merged, Part, Scope, near
from penstock.sql.binder.units import positive, time_window
from penstock.sql.parser.ast import (
    Amount,
    Common,
    InputSyntax,
    JoinInput,
    NamedInput,
    QueryInput,
    QuerySyntax,
    WindowSyntax,
)
from penstock.sql.parser.source_text import Source, Span
from penstock.types.data_type import Type

MOST_INPUTS = 256
"""Streams and tables a query may name, common table expressions written out: plans are walked recursively."""


MOST_WRITTEN_OUT = 16
"""The same where common table expressions are written out; beyond, each is planned once for all that read it."""


class TooLargeError(Exception):
    """With common table expressions written out, a query reads more than it should."""


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A common table expression and the ones it can itself see."""

    common: Common
    commons: dict[str, Known]


@dataclass(slots=True)
class Binding:
    """What is known while one statement is bound."""

    source: Source
    catalog: Catalog
    default: Amount | None = None
    """The query's WINDOW clause."""
    time: Type | None = None
    """How the streams met so far count time; they must agree."""
    inputs: int = 0
    share: bool = False
    """Plan each common table expression once, instead of writing it out where it is read."""
    planned: dict[Known, Node] = field(default_factory=dict)
    """What was planned so."""
    reading: int = 0
    """Common table expressions around what is being bound."""

    def scalars(self, scope: Scope, clause: str) -> Scalars:
        return Scalars(scope, self.catalog, self.source, clause)


@dataclass(slots=True)
class From:
    """Inputs that are still side by side: one join of many, until something needs them as one node."""

    nodes: list[Node]
    scope: Scope
    predicates: list[Expression] = field(default_factory=list)

    def node(self) -> Node:
        if len(self.nodes) > 1:
            return Join(tuple(self.nodes), tuple(self.predicates))
        return Filter(self.nodes[0], conjunction(self.predicates)) if self.predicates else self.nodes[0]

    def beside(self, other: From, source: Source, span: Span) -> From:
        """Both, the other's columns after ours."""
        width = self.scope.width
        for part in other.scope.parts:
            if part.alias and self.scope.has(part.alias):
                hint = f"give one of them another alias: {part.alias} AS {part.alias}2"
                raise source.error(BindError, f"{part.alias} stands twice in FROM", span, hint)
        scope = self.scope.beside(other.scope.moved(width))
        predicates = self.predicates + [shifted(p, width) for p in other.predicates]
        return From(self.nodes + other.nodes, scope, predicates)


SubqueryBinder = Callable[[QuerySyntax, Binding, dict[str, Known]], Node]


@dataclass(frozen=True, slots=True)
class Inputs:
    """Builds FROM; `subquery` binds nested queries (they in turn have a FROM)."""

    binding: Binding
    commons: dict[str, Known]
    subquery: SubqueryBinder

    def bind(self, inputs: tuple[InputSyntax, ...]) -> From:
        built = self.one(inputs[0])
        for syntax in inputs[1:]:
            built = built.beside(self.one(syntax), self.binding.source, syntax.span)
        return built

    def one(self, syntax: InputSyntax) -> From:
        if isinstance(syntax, JoinInput):
            return self._join(syntax)
        node, alias = self._query(syntax) if isinstance(syntax, QueryInput) else self._named(syntax)
        return From([node], Scope((Part(alias, node.schema, 0),)))

    # -- streams, tables, subqueries --------------------------------------------------------------------

    def _named(self, syntax: NamedInput) -> tuple[Node, str]:
        alias = (syntax.alias or syntax.name).text
        key, catalog, source = syntax.name.key, self.binding.catalog, self.binding.source
        known = self.commons.get(key)
        if known is not None:
            return self._common(syntax, known, alias), alias
        self.binding.inputs += 1
        if self.binding.reading and not self.binding.share and self.binding.inputs > MOST_WRITTEN_OUT:
            raise TooLargeError
        if self.binding.inputs > MOST_INPUTS:
            message = f"the query reads more than {MOST_INPUTS} streams and tables"
            raise source.error(
                PlanError, message, syntax.span, "name what is read often in WITH, where it is planned once"
            )
        if key in catalog.streams:
            return self._stream(catalog.streams[key], alias, syntax), alias
        if key in catalog.tables:
            if syntax.window is not None:
                hint = "only streams and subqueries have windows; a table is as it is"
                raise source.error(BindError, f"{syntax.name.text} is a table", syntax.window.span, hint)
            return Relation(catalog.tables[key], alias), alias
        declared: list[Stream | Table] = [*catalog.streams.values(), *catalog.tables.values()]
        names = [one.name for one in declared]
        names += [k.common.name.text for k in self.commons.values()]
        hint = near(syntax.name.text, names, "the names") or "CREATE STREAM it first"
        raise source.error(BindError, f"no stream or table {syntax.name.text}", syntax.name.span, hint)

    def _stream(self, stream: Stream, alias: str, syntax: NamedInput) -> Node:
        binding = self.binding
        if binding.time not in (None, stream.time_type):
            raise binding.source.error(
                BindError,
                f"{stream.name} counts time in {stream.time_type}, the streams before it in {binding.time}",
                syntax.name.span,
                "streams of one query have time columns of one type",
            )
        binding.time = stream.time_type
        scan = Scan(stream, alias)
        return Windowed(scan, self._window(syntax.window, scan, alias))

    def _common(self, syntax: NamedInput, known: Known, alias: str) -> Node:
        """The expression written out where it is named, or shared, its columns under the new alias."""
        node = self._planned(known)
        names = [name.text for name in known.common.columns] or [f.name for f in node.schema]
        if len(names) != len(node.schema):
            raise self.binding.source.error(
                BindError,
                f"{known.common.name.text} has {len(node.schema)} columns, not {len(names)}",
                known.common.columns[0].span,
            )
        return self._windowed(_named_as(node, names, alias), syntax.window, alias)

    def _planned(self, known: Known) -> Node:
        """The plan of a common table expression."""
        binding = self.binding
        found = binding.planned.get(known)
        if found is not None:
            return found
        binding.reading += 1
        node = self.subquery(known.common.query, binding, known.commons)
        binding.reading -= 1
        if binding.share:
            if not is_table(node):
                node = Shared(node, known.common.name.text)
            binding.planned[known] = node
        return node

    def _query(self, syntax: QueryInput) -> tuple[Node, str]:
        alias = syntax.alias.text if syntax.alias is not None else ""
        node = self.subquery(syntax.query, self.binding, self.commons)
        node = _named_as(node, [f.name for f in node.schema], alias)
        return self._windowed(node, syntax.window, alias), alias

    def _windowed(self, node: Node, window: WindowSyntax | None, alias: str) -> Node:
        return node if window is None else Windowed(node, self._window(window, node, alias))

    # -- windows ----------------------------------------------------------------------------------------

    def _window(self, syntax: WindowSyntax | None, node: Node, alias: str) -> Window:
        binding = self.binding
        time = binding.time or Type.BIGINT
        if syntax is None:
            if binding.default is None:
                return Unbounded()
            return Range(positive(binding.default, time, "the length of a window", binding.source))
        if syntax.kind == "ROWS":
            return self._rows(syntax, node, alias)
        return time_window(syntax, time, binding.source)

    def _rows(self, syntax: WindowSyntax, node: Node, alias: str) -> Rows:
        assert syntax.length is not None
        if not 0 < syntax.length.value < 2**31:
            message = "ROWS takes a number from 1 to 2147483647"
            raise self.binding.source.error(BindError, message, syntax.length.span)
        scope = Scope((Part(alias, node.schema, 0),))
        scalars = self.binding.scalars(scope, "PARTITION BY")
        keys = [scalars.bind(key) for key in syntax.partition]
        return Rows(syntax.length.value, tuple(key.index for key in keys if isinstance(key, Column)))

    # -- joins ------------------------------------------------------------------------------------------

    def _join(self, syntax: JoinInput) -> From:
        """A left-deep chain of joins, taken from its left end so that its length costs no stack."""
        chain_: list[JoinInput] = []
        first: InputSyntax = syntax
        while isinstance(first, JoinInput):
            chain_.append(first)
            first = first.left
        built = self.one(first)
        for join in reversed(chain_):
            built = self._joined(built, self.one(join.right), join)
        return built

    def _joined(self, left: From, right: From, syntax: JoinInput) -> From:
        both = left.beside(right, self.binding.source, syntax.right.span)
        if syntax.using:
            on, merged = self._using(syntax, left.scope, right.scope.moved(left.scope.width))
        else:
            on, merged = self._on(syntax, both.scope), []
        scope = both.scope.merging(merged)
        if syntax.kind in ("INNER", "CROSS"):
            return From(both.nodes, scope, both.predicates + on)
        a, b = left.node(), right.node()
        if syntax.kind == "ANTI":
            return From([AntiJoin(a, b, tuple(on))], left.scope)
        keeps = (syntax.kind != "RIGHT", syntax.kind != "LEFT")
        return From([OuterJoin(a, b, tuple(on), *keeps)], scope)

    def _on(self, syntax: JoinInput, scope: Scope) -> list[Expression]:
        if syntax.on is None:
            return []
        scalars = self.binding.scalars(scope, "ON")
        return [scalars.predicate(part) for part in chain(syntax.on, exp.And)]

    def _using(self, syntax: JoinInput, left: Scope, right: Scope) -> tuple[list[Expression], list[Merged]]:
        """An equality for each name, and the one column that both sides become."""
        source = self.binding.source
        left, right = (Scope(s.parts, s.merged, qualified=True) for s in (left, right))
        on: list[Expression] = []
        merged: list[Merged] = []
        for name in syntax.using:
            pair = left.must_find(name.text, name.span, source), right.must_find(name.text, name.span, source)
            try:
                on.append(call("=", *pair))
                one = _one_of(pair, syntax.kind)
            except FunctionError as error:
                raise source.error(BindError, error.message, name.span, error.hint) from None
            hides = frozenset(c.index for expression in pair for c in columns(expression))
            merged.append(Merged(name.text, one, hides))
        return on, merged


def _one_of(pair: tuple[Expression, Expression], kind: str) -> Expression:
    if kind == "FULL":
        return call("coalesce", *pair)
    return pair[1] if kind == "RIGHT" else pair[0]


def _named_as(node: Node, names: list[str], alias: str) -> Node:
    """The node with its columns under these names and this alias."""
    if isinstance(node, Project) and [f.name for f in node.schema] == names:
        return Project(node.input, node.outputs, alias)
    if [f.name for f in node.schema] == names:
        return node
    columns = [Column(i, f.type, f.name) for i, f in enumerate(node.schema)]
    return Project(node, tuple(Named(c, n) for c, n in zip(columns, names, strict=True)), alias)
