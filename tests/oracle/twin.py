"""The naive twin: Q(τ) in plain Python, short enough to be believed.

A relation is a list of (values, ts); `ts` is when the row became true, needed only where a table is looked
up as it was then. Nothing here is incremental and nothing is shared with the engine or with DuckDB.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.oracle.algebra import Relation, Select, SetOp, Source, StreamSource, SubSource, TableSource
from tests.oracle.model import BEGINNING, World
from tests.oracle.scalar import NAN, Env, Expr, Value, evaluate, walk
from tests.oracle.scalar import Col as Column

Row = tuple[Value, ...]
Stamped = tuple[Row, int]


@dataclass(frozen=True, slots=True)
class Moment:
    """What a query registered when the clock showed `since` can see at `tau`."""

    world: World
    since: int
    tau: int

    def window(self, source: StreamSource) -> list[Stamped]:
        stream, window = self.world.schema.stream(source.stream), source.window
        rows = [(row, row[stream.time]) for row in self.world.accepted[source.stream]]
        rows = [(row, ts) for row, ts in rows if self.since < ts <= self.tau]
        if window.kind == "rows":
            return self.last(source, sorted(rows, key=lambda r: r[1]))  # stable: arrival breaks ties
        alive = [(row, *window.bounds(ts)) for row, ts in rows]
        return [
            (row, start) for row, start, end in alive if start <= self.tau and (end is None or self.tau < end)
        ]

    def last(self, source: StreamSource, rows: list[Stamped]) -> list[Stamped]:
        names = [name for name, _ in self.world.schema.stream(source.stream).columns]
        places = [names.index(p) for p in source.window.partition]
        seen: Counter[Row] = Counter()
        kept = []
        for row, ts in reversed(rows):
            key = canonical(tuple(row[p] for p in places))
            seen[key] += 1
            if seen[key] <= source.window.count:
                kept.append((row, ts))
        return kept

    def rows(self, source: Source) -> list[Stamped]:
        match source:
            case StreamSource():
                return self.window(source)
            case SubSource(query):
                return self.relation(query)
            case TableSource(table):  # an NRR is filtered later, by the result's ts
                return [(v.row, v.since) for v in self.world.tables[table]
                        if not source.retroactive or v.since <= self.tau < v.until]  # fmt: skip

    def relation(self, query: Relation) -> list[Stamped]:
        if isinstance(query, SetOp):
            return [(row, self.tau) for row in self.combined(query)]
        rows = self.joined(query)
        if query.keys is not None:
            result = [(row, self.tau) for row in grouped(query, [env for env, _ in rows])]
        else:
            result = [(tuple(evaluate(i, env) for i in query.items), ts) for env, ts in rows]
        if query.distinct:
            return [(row, self.tau) for row in Counter(canonical(row) for row, _ in result)]
        return [(canonical(row), ts) for row, ts in result]

    def joined(self, query: Select) -> list[tuple[Env, int]]:
        """FROM and WHERE: each combination of rows for which all conjuncts are true, with its ts."""
        return self.without(query, self.chain(query) if query.is_outer else self.inner(query))

    def chain(self, query: Select) -> list[tuple[Env, int]]:
        """A chain of joins of which some are outer, from left to right."""
        if query.keeps_lookups:
            return self.looked_up(query)
        first, *others = query.sources
        left = [self.named(first, row) for row, _ in self.rows(first)]
        nothing = self.nulls(first)
        for source, on, kind in zip(others, query.on, query.kinds, strict=True):
            right = [self.named(source, row) for row, _ in self.rows(source)]
            pairs = [
                (i, j) for i, a in enumerate(left) for j, b in enumerate(right) if holds(on or (), {**a, **b})
            ]
            made = [{**left[i], **right[j]} for i, j in pairs]
            if kind in ("left", "full"):
                met = {i for i, _ in pairs}
                made += [{**a, **self.nulls(source)} for i, a in enumerate(left) if i not in met]
            if kind in ("right", "full"):
                met = {j for _, j in pairs}
                made += [{**nothing, **b} for j, b in enumerate(right) if j not in met]
            left, nothing = made, {**nothing, **self.nulls(source)}
        return [(env, self.tau) for env in left if holds(query.where, env)]

    def looked_up(self, query: Select) -> list[tuple[Env, int]]:
        """Inner joins, and then LEFT JOIN with a table as it was when the joined row became true."""
        *streams, table = query.sources
        made: list[tuple[Env, int]] = []
        rows = self.inner(replace(query, sources=tuple(streams), on=query.on[:-1], where=(), kinds=()))
        for env, ts in rows:
            found = [{**env, **self.named(table, row)} for row, _ in self.matching(table, ts)]
            met = [one for one in found if holds(query.on[-1] or (), one)]
            made += [(one, ts) for one in met or [{**env, **self.nulls(table)}]]
        return [(env, ts) for env, ts in made if holds(query.where, env)]

    def nulls(self, source: Source) -> Env:
        return self.named(source, (None,) * len(self.names(source)))

    def inner(self, query: Select) -> list[tuple[Env, int]]:
        partial: list[tuple[Env, int]] = [({}, BEGINNING)]
        bound: set[str] = set()
        waiting = list(query.conjuncts)
        for source in ordered(query.sources):
            bound.add(source.alias)
            ready = [c for c in waiting if aliases(c) <= bound]
            waiting = [c for c in waiting if c not in ready]
            partial = [
                (env, max(ts, stamp))
                for before, ts in partial
                for row, stamp in self.matching(source, ts)
                if holds(ready, env := {**before, **self.named(source, row)})
            ]
        return partial

    def without(self, query: Select, rows: list[tuple[Env, int]]) -> list[tuple[Env, int]]:
        """The rows that NOT EXISTS, or an anti join, leaves."""
        anti = query.anti
        if anti is None:
            return rows
        right = [self.named(anti.source, row) for row, _ in self.rows(anti.source)]
        return [(env, ts) for env, ts in rows if not any(holds(anti.on, {**env, **r}) for r in right)]

    def matching(self, source: Source, ts: int) -> list[Stamped]:
        if isinstance(source, TableSource) and not source.retroactive:
            return [(v.row, ts) for v in self.world.tables[source.table] if v.since <= ts < v.until]
        return self.rows(source)

    def names(self, source: Source) -> list[str]:
        match source:
            case StreamSource(stream):
                return [name for name, _ in self.world.schema.stream(stream).columns]
            case TableSource(table):
                return [name for name, _ in self.world.schema.table(table).columns]
            case SubSource(query):
                return [f"c{i}" for i in range(len(query.types))]

    def named(self, source: Source, row: Row) -> Env:
        return {(source.alias, n): value for n, value in zip(self.names(source), row, strict=True)}

    def combined(self, query: SetOp) -> Iterator[Row]:
        left = Counter(row for row, _ in self.relation(query.left))
        right = Counter(row for row, _ in self.relation(query.right))
        if not query.all:
            left, right = Counter(set(left)), Counter(set(right))
        match query.op:
            case "union":
                result = left + right if query.all else left | right
            case "intersect":
                result = left & right
            case _:
                result = left - right
        return result.elements()


def ordered(sources: tuple[Source, ...]) -> list[Source]:
    """Tables looked up at the result's ts come last."""
    return sorted(sources, key=lambda s: isinstance(s, TableSource) and not s.retroactive)


def holds(conjuncts: tuple[Expr, ...] | list[Expr], env: Env) -> bool:
    return all(evaluate(c, env) is True for c in conjuncts)


def aliases(expr: Expr) -> set[str]:
    return {part.alias for part in walk(expr) if isinstance(part, Column)}


def grouped(query: Select, rows: list[Env]) -> Iterator[Row]:
    groups: dict[Row, list[Env]] = {} if query.keys else {(): []}
    for env in rows:
        groups.setdefault(canonical(tuple(evaluate(k, env) for k in query.keys or ())), []).append(env)
    for group in groups.values():
        env = group[0] if group else {}
        if all(evaluate(h, env, group) is True for h in query.having):
            yield tuple(evaluate(i, env, group) for i in query.items)


def canonical(row: Row) -> Row:
    """One NaN object, so that rows with NaN are equal."""
    return tuple(NAN if isinstance(v, float) and v != v else v for v in row)


def answer(world: World, query: Relation, since: int, tau: int) -> list[Row]:
    """Q(τ) as a list of rows in no order."""
    return [row for row, _ in Moment(world, since, tau).relation(query)]
