"""Queries as objects: what the generator makes, and both evaluators and our SQL are made from.

The shape is that of SQL text: a `Select` block over sources, set operations, relation-to-stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tests.oracle.scalar import Agg, Col, Expr, Micros, interval, ours, walk


@dataclass(frozen=True, slots=True)
class Window:
    """`kind`: range, now, unbounded, none (no window written), default (the trailing WINDOW), rows."""

    kind: str
    length: int = 0
    slide: int = 1
    count: int = 0
    partition: tuple[str, ...] = ()

    @property
    def is_range(self) -> bool:
        return self.kind in ("range", "now", "default")

    def bounds(self, ts: int) -> tuple[int, int | None]:
        """Alive in [first, second); only for windows over time."""
        if not self.is_range:
            return ts, None
        return -(-ts // self.slide) * self.slide, -(-(ts + self.length) // self.slide) * self.slide

    def sql(self) -> str:
        match self.kind:
            case "range":
                slide = "" if self.slide == 1 else f" SLIDE {length(self.slide)}"
                return f" [RANGE {length(self.length)}{slide}]"
            case "rows":
                keys = f"PARTITION BY {', '.join(self.partition)} " if self.partition else ""
                return f" [{keys}ROWS {self.count}]"
            case "now" | "unbounded":
                return f" [{self.kind.upper()}]"
        return ""


def length(units: int) -> str:
    return interval(units) if isinstance(units, Micros) else str(units)


@dataclass(frozen=True, slots=True)
class StreamSource:
    stream: str
    alias: str
    window: Window

    def sql(self) -> str:
        return f"{self.stream}{self.window.sql()}" + (
            "" if self.alias == self.stream else f" AS {self.alias}"
        )


@dataclass(frozen=True, slots=True)
class TableSource:
    table: str
    alias: str
    retroactive: bool

    def sql(self) -> str:
        return self.table + ("" if self.alias == self.table else f" AS {self.alias}")


@dataclass(frozen=True, slots=True)
class SubSource:
    query: Relation
    alias: str
    name: str = ""
    """Of the WITH query that it is, which may be read several times; empty: written where it stands."""

    def sql(self) -> str:
        return f"{self.name} AS {self.alias}" if self.name else f"({_text(self.query)}) AS {self.alias}"


Source = StreamSource | TableSource | SubSource


@dataclass(frozen=True, slots=True)
class Anti:
    """Left rows without a right row for which every conjunct of `on` is true."""

    source: Source
    on: tuple[Expr, ...]
    style: str
    """`not exists` or `anti join`."""


@dataclass(frozen=True, slots=True)
class Select:
    items: tuple[Expr, ...]
    sources: tuple[Source, ...]
    on: tuple[tuple[Expr, ...] | None, ...] = ()
    """For each source after the first: conjuncts of its JOIN … ON, or None for a comma."""
    where: tuple[Expr, ...] = ()
    anti: Anti | None = None
    keys: tuple[Expr, ...] | None = None
    """GROUP BY expressions; () is a global aggregate; None is no aggregate."""
    having: tuple[Expr, ...] = ()
    distinct: bool = False
    star: bool = False
    kinds: tuple[str, ...] = ()
    """For each source after the first: `inner`, `left`, `right` or `full`; () means that all are inner."""

    @property
    def is_outer(self) -> bool:
        return any(kind != "inner" for kind in self.kinds)

    @property
    def keeps_lookups(self) -> bool:
        """The only outer join is a stream's rows LEFT JOIN a table that they are looked up in as they come."""
        *before, last = self.kinds or ("inner",)
        source = self.sources[-1]
        looked_up = isinstance(source, TableSource) and not source.retroactive
        return looked_up and last == "left" and all(kind == "inner" for kind in before)

    @property
    def conjuncts(self) -> tuple[Expr, ...]:
        return tuple(c for on in self.on if on for c in on) + self.where

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(item.type for item in self.items)


@dataclass(frozen=True, slots=True)
class SetOp:
    """`op`: union, intersect, except."""

    op: str
    all: bool
    left: Relation
    right: Relation

    @property
    def types(self) -> tuple[str, ...]:
        return self.left.types


@dataclass(frozen=True, slots=True)
class ToStream:
    """`kind`: istream, dstream, rstream."""

    kind: str
    query: Relation

    @property
    def types(self) -> tuple[str, ...]:
        return self.query.types


Relation = Select | SetOp
Query = Relation | ToStream


def sql(query: Query, names: str = "c") -> str:
    """The query in our SQL; its columns are called `c0`, `c1`, … or whatever `names` begins with."""
    default = next((s.window.length for s in streams(query) if s.window.kind == "default"), None)
    text = _text(query, names)
    if not isinstance(query, ToStream):
        text = _with(query) + text
    return text if default is None else f"{text} WINDOW {length(default)}"


def _text(query: Query, names: str = "c") -> str:
    if isinstance(query, ToStream):
        return f"{query.kind.upper()}({_with(query)}{_text(query.query, names)})"
    if isinstance(query, SetOp):
        left, right = (
            f"({_text(q, names)})" if isinstance(q, SetOp) else _text(q, names)
            for q in (query.left, query.right)
        )
        return f"{left} {query.op.upper()}{' ALL' if query.all else ''} {right}"
    items = "*" if query.star else ", ".join(f"{ours(e)} AS {names}{i}" for i, e in enumerate(query.items))
    text = f"SELECT {'DISTINCT ' if query.distinct else ''}{items} FROM {_from(query)}"
    where = [ours(c) for c in query.where]
    if query.anti and query.anti.style == "not exists":
        inner = " AND ".join(map(ours, query.anti.on))
        where.append(
            f"NOT EXISTS (SELECT 1 FROM {query.anti.source.sql()}{' WHERE ' + inner if inner else ''})"
        )
    if where:
        text += f" WHERE {' AND '.join(where)}"
    if query.keys:
        text += f" GROUP BY {', '.join(map(ours, query.keys))}"
    if query.having:
        text += f" HAVING {' AND '.join(map(ours, query.having))}"
    return text


def _with(query: Query) -> str:
    """The WITH queries that are read somewhere, each after those it reads."""
    found = {source.name: source.query for source in _named(query)}
    if not found:
        return ""
    return f"WITH {', '.join(f'{name} AS ({_text(inner)})' for name, inner in found.items())} "


def _named(query: Query) -> Iterator[SubSource]:
    if isinstance(query, ToStream):
        yield from _named(query.query)
    elif isinstance(query, SetOp):
        yield from (*_named(query.left), *_named(query.right))
    else:
        for source in own_sources(query):
            if isinstance(source, SubSource):
                yield from _named(source.query)
                if source.name:
                    yield source


def _from(query: Select) -> str:
    text = query.sources[0].sql()
    kinds = query.kinds or ("inner",) * len(query.on)
    for source, on, kind in zip(query.sources[1:], query.on, kinds, strict=True):
        word = "" if kind == "inner" else f" {kind.upper()}"
        text += f", {source.sql()}" if on is None else f"{word} JOIN {source.sql()} ON {_conjunction(on)}"
    if query.anti and query.anti.style == "anti join":
        text += f" LEFT ANTI JOIN {query.anti.source.sql()} ON {_conjunction(query.anti.on)}"
    return text


def _conjunction(conjuncts: tuple[Expr, ...]) -> str:
    return " AND ".join(map(ours, conjuncts)) or "TRUE"


def own_sources(query: Select) -> tuple[Source, ...]:
    """The sources of a block, the one of NOT EXISTS included."""
    return query.sources + ((query.anti.source,) if query.anti else ())


def blocks(query: Query) -> Iterator[Query]:
    """The query and every query inside it."""
    yield query
    inner: tuple[Query, ...]
    if isinstance(query, ToStream):
        inner = (query.query,)
    elif isinstance(query, SetOp):
        inner = (query.left, query.right)
    else:
        inner = tuple(s.query for s in own_sources(query) if isinstance(s, SubSource))
    for part in inner:
        yield from blocks(part)


def streams(query: Query) -> Iterator[StreamSource]:
    """Every use of a stream."""
    for block in blocks(query):
        if isinstance(block, Select):
            yield from (s for s in own_sources(block) if isinstance(s, StreamSource))


def with_windows(query: Relation, change: Callable[[Window], Window]) -> Relation:
    """The query with every window replaced."""
    if isinstance(query, SetOp):
        left, right = with_windows(query.left, change), with_windows(query.right, change)
        return replace(query, left=left, right=right)

    def changed(source: Source) -> Source:
        match source:
            case StreamSource():
                return replace(source, window=change(source.window))
            case SubSource():
                return replace(source, query=with_windows(source.query, change))
        return source

    anti = query.anti and replace(query.anti, source=changed(query.anti.source))
    return replace(query, sources=tuple(map(changed, query.sources)), anti=anti)


def tables(query: Query) -> Iterator[TableSource]:
    """Every use of a table."""
    for block in blocks(query):
        if isinstance(block, Select):
            yield from (s for s in own_sources(block) if isinstance(s, TableSource))


def expressions(query: Query) -> Iterator[Expr]:
    """Every expression written in the query."""
    for block in blocks(query):
        if isinstance(block, Select):
            yield from block.items + block.conjuncts + (block.keys or ()) + block.having
            yield from block.anti.on if block.anti else ()


def group_root(query: Query) -> tuple[Select | None, bool]:
    """The aggregate a query ends in, below plain projections and filters; and whether anything filters it."""
    filtered = False
    while isinstance(query, Select) and query.keys is None and not query.anti and not query.distinct:
        if len(query.sources) != 1 or not isinstance(query.sources[0], SubSource):
            return None, False
        filtered = filtered or bool(query.where)
        query = query.sources[0].query
    if not isinstance(query, Select) or query.keys is None or query.distinct:
        return None, False
    return query, filtered or bool(query.having)


def is_grouped(query: Query) -> bool:
    """A newer row with the same key replaces the older one in the changes."""
    return group_root(query)[0] is not None


def key_positions(query: Query) -> tuple[int, ...] | None:
    """Where the group key stands in the result; None if it is not all selected (`__key` travels)."""
    places = _key_places(query)
    return None if not all(places) else tuple(p[0] for p in places)


def _key_places(query: Query) -> list[list[int]]:
    """For each part of the group key, every place in the result where it stands."""
    assert isinstance(query, Select)
    if query.keys is not None:
        wanted = [[_plain(key)] for key in query.keys]
    else:
        source = query.sources[0]
        assert isinstance(source, SubSource)
        types = source.query.types
        wanted = [
            [Col(source.alias, f"c{p}", types[p]) for p in places] for places in _key_places(source.query)
        ]
    return [[i for i, item in enumerate(query.items) if _plain(item) in same] for same in wanted]


def _plain(expr: Expr) -> Expr:
    """A column is the same column however it is written."""
    return replace(expr, bare=False) if isinstance(expr, Col) else expr


def patterns(query: Query) -> frozenset[str]:
    """The update patterns the query may report, as the propagation rules have it.

    An outer join whose unmatched rows no predicate lets through may be planned as an inner one.
    """
    outer = any(isinstance(block, Select) and block.is_outer for block in blocks(query))
    return _patterns(query) | (_patterns(inner_only(query)) if outer else frozenset())


def inner_only(query: Query) -> Query:
    """The query with all its outer joins inner."""
    if isinstance(query, ToStream):
        return replace(query, query=inner_only(query.query))
    if isinstance(query, SetOp):
        return replace(query, left=inner_only(query.left), right=inner_only(query.right))

    def changed(source: Source) -> Source:
        return replace(source, query=inner_only(source.query)) if isinstance(source, SubSource) else source

    anti = query.anti and replace(query.anti, source=changed(query.anti.source))
    return replace(query, sources=tuple(map(changed, query.sources)), anti=anti, kinds=())


def _patterns(query: Query) -> frozenset[str]:
    if isinstance(query, ToStream):
        return frozenset({"MONOTONIC"})
    top, filtered = group_root(query)
    if top is None:
        return _edge(query)
    if filtered or (top.keys and "STRICT" in _joined(top)):
        return frozenset({"STRICT"})
    return frozenset({"WEAK"} if top is query and "STRICT" not in _joined(top) else {"WEAK", "STRICT"})


def _edge(query: Relation) -> frozenset[str]:
    """Patterns of a relation that feeds another operator: an aggregate is STRICT there."""
    if isinstance(query, SetOp):
        sides = (_edge(query.left), _edge(query.right))
        if query.op == "except":
            return frozenset({"STRICT"})
        merged = _merge(sides)
        if query.op == "union" and query.all and "MONOTONIC" not in sides[0] | sides[1]:
            windows = {(s.window.length, s.window.slide) for s in streams(query)}
            if all(side == {"WEAKEST"} for side in sides):
                return frozenset({"WEAKEST"} if len(windows) == 1 else {"WEAK"})
        return merged
    if query.keys is not None or query.anti:
        return frozenset({"STRICT"})
    pattern = _joined(query)
    return (
        pattern if not query.distinct else frozenset({"WEAK"} if pattern & {"WEAK", "WEAKEST"} else pattern)
    )


def _joined(query: Select) -> frozenset[str]:
    if query.anti or (query.is_outer and not query.keeps_lookups):
        return frozenset({"STRICT"})
    sides = [_source(s) for s in query.sources if not (isinstance(s, TableSource) and not s.retroactive)]
    return sides[0] if len(sides) == 1 else _merge(tuple(sides))


def _source(source: Source) -> frozenset[str]:
    if isinstance(source, SubSource):
        return _edge(source.query)
    if isinstance(source, TableSource) or source.window.kind == "rows":
        return frozenset({"STRICT"})
    return frozenset({"WEAKEST"} if source.window.is_range else {"MONOTONIC"})


def _merge(sides: tuple[frozenset[str], ...]) -> frozenset[str]:
    if any("STRICT" in side for side in sides):
        return frozenset({"STRICT"})
    if all(side == {"MONOTONIC"} for side in sides):
        return frozenset({"MONOTONIC"})
    return frozenset({"WEAK"})


def aggregates(query: Query) -> Iterator[Agg]:
    for expr in expressions(query):
        yield from (part for part in walk(expr) if isinstance(part, Agg))
