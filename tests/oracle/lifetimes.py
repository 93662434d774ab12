"""Exactly which changes are due, for queries where the contract leaves no choice.

Results of selections, joins and UNION ALL over windows have lifetimes [max ts, min exp). Above them a DISTINCT,
a GROUP BY or an EXCEPT ALL shows some rows at each instant; what is sent is the net difference between what is
shown before and after, expired rows aside. Where a count window, a retroactive table or deeper nesting is
involved, `changes` answers None: then only the replayed view is checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.oracle.algebra import (
    Query,
    Relation,
    Select,
    SetOp,
    Source,
    StreamSource,
    SubSource,
    TableSource,
    sql,
)
from tests.oracle.model import BEGINNING, END, World
from tests.oracle.replay import Row
from tests.oracle.scalar import Env, evaluate
from tests.oracle.twin import Moment, aliases, canonical, holds, ordered

Due = tuple[str, int, int | None, Row]
"""(op, ts, exp, row)"""
Shown = Counter[tuple[Row, int]]
MOST = 3000


@dataclass(frozen=True, slots=True)
class Lived:
    """A joined row and the instants [ts, exp) in which it is there; END is never."""

    env: Env
    ts: int
    exp: int


class Unclear(Exception):
    """The contract leaves a choice here, or working it out naively would take too long."""


def changes(world: World, query: Query, since: int, clock: int) -> list[Due] | None:
    """All changes due in (since, clock], in order of time; None where they are not determined.

    Deviations of different values may be equal but for rounding: whether that is a change is anybody's choice.
    """
    if "STDDEV" in sql(query):
        return None
    try:
        shown, instants, signed = _shown(Moment(world, since, clock), query)
        return list(_differences(shown, sorted(t for t in instants if since < t <= clock), signed))
    except Unclear:
        return None


def _differences(shown: Callable[[int], Shown], instants: list[int], signed: bool) -> Iterator[Due]:
    before: Shown = shown(instants[0] - 1) if instants else Counter()
    for tau in instants:
        still = Counter({held: n for held, n in before.items() if held[1] > tau})
        now = shown(tau)
        if signed:
            yield from (("-", tau, _end(exp), row) for row, exp in (still - now).elements())
        yield from (("+", tau, _end(exp), row) for row, exp in (now - still).elements())
        before = now


def _end(exp: int) -> int | None:
    return None if exp >= END else exp


def _shown(moment: Moment, query: Query) -> tuple[Callable[[int], Shown], set[int], bool]:
    """What is shown at τ, the instants at which that may change, and whether ends are sent."""
    if isinstance(query, SetOp) and query.op == "except" and query.all:
        return _negation(moment, query)
    if isinstance(query, Select) and query.keys is not None and not query.distinct:
        return _groups(moment, query)
    if isinstance(query, Select) and query.distinct and query.keys is None:
        return _distinct(_results(moment, query))
    results = _results(moment, query)

    def shown(tau: int) -> Shown:
        return Counter((row, exp) for row, ts, exp in results if ts <= tau < exp)

    return shown, _edges(results), False


def _edges(results: list[tuple[Row, int, int]]) -> set[int]:
    return {t for _, ts, exp in results for t in (ts, exp) if t < END}


def _distinct(results: list[tuple[Row, int, int]]) -> tuple[Callable[[int], Shown], set[int], bool]:
    """One copy per value: kept until its end, then the one with the greatest end."""
    held: dict[Row, int] = {}

    def shown(tau: int) -> Shown:
        best: dict[Row, int] = {}
        for row, ts, exp in results:
            if ts <= tau < exp:
                best[row] = max(exp, best.get(row, exp))
        for row in list(held):
            if held[row] <= tau or row not in best:
                del held[row]
        for row, exp in best.items():
            held.setdefault(row, exp)
        return Counter(held.items())

    return shown, _edges(results), False


def _groups(moment: Moment, query: Select) -> tuple[Callable[[int], Shown], set[int], bool]:
    """Per group its row, which is announced to last until the group's next expiry."""
    rows = joined(moment, query)
    keys = query.keys or ()
    members: dict[Row, list[Lived]] = {} if keys else {(): []}
    for lived in rows:
        members.setdefault(canonical(tuple(evaluate(k, lived.env) for k in keys)), []).append(lived)

    def shown(tau: int) -> Shown:
        found: Shown = Counter()
        for group in members.values():
            alive = [lived for lived in group if lived.ts <= tau < lived.exp]
            envs = [lived.env for lived in alive]
            if (alive or not keys) and all(
                evaluate(h, envs[0] if envs else {}, envs) is True for h in query.having
            ):
                row = canonical(tuple(evaluate(i, envs[0] if envs else {}, envs) for i in query.items))
                found[row, min((lived.exp for lived in alive), default=END)] += 1
        return found

    if not all(k in query.items for k in keys):
        raise Unclear  # rows of different groups could look alike
    return shown, {t for lived in rows for t in (lived.ts, lived.exp) if t < END}, bool(query.having)


def _negation(moment: Moment, query: SetOp) -> tuple[Callable[[int], Shown], set[int], bool]:
    """The youngest left copies beyond the number of right ones; plain windows only, so that age is plain."""
    for side in (query.left, query.right):
        if (
            not isinstance(side, Select)
            or side.distinct
            or len(side.sources) != 1
            or not isinstance(side.sources[0], StreamSource)
        ):
            raise Unclear
    left, right = _results(moment, query.left), _results(moment, query.right)

    def shown(tau: int) -> Shown:
        against = Counter(row for row, ts, exp in right if ts <= tau < exp)
        copies: dict[Row, list[tuple[int, int]]] = {}
        for row, ts, exp in left:
            if ts <= tau < exp:
                copies.setdefault(row, []).append((ts, exp))
        found: Shown = Counter()
        for row, alive in copies.items():
            for _, exp in sorted(alive, reverse=True)[: max(len(alive) - against[row], 0)]:
                found[row, exp] += 1
        return found

    return shown, _edges(left) | _edges(right), True


def _results(moment: Moment, query: Relation) -> list[tuple[Row, int, int]]:
    """Rows of selections, joins and UNION ALL with their lifetimes."""
    if isinstance(query, SetOp):
        if query.op != "union" or not query.all or _is_distinct(query.left) or _is_distinct(query.right):
            raise Unclear
        return _results(moment, query.left) + _results(moment, query.right)
    if query.keys is not None:
        raise Unclear
    return [
        (canonical(tuple(evaluate(i, lived.env) for i in query.items)), lived.ts, lived.exp)
        for lived in joined(moment, query)
    ]


def _is_distinct(query: Relation) -> bool:
    return isinstance(query, Select) and query.distinct


def joined(moment: Moment, query: Select) -> list[Lived]:
    """FROM and WHERE over all time."""
    if query.anti or query.is_outer:
        raise Unclear
    partial = [Lived({}, BEGINNING, END)]
    bound: set[str] = set()
    waiting = list(query.conjuncts)
    for source in ordered(query.sources):
        bound.add(source.alias)
        ready = [c for c in waiting if aliases(c) <= bound]
        waiting = [c for c in waiting if c not in ready]
        rows = [Lived(moment.named(source, row), ts, exp) for row, ts, exp in _rows(moment, source)]
        looked_up = isinstance(source, TableSource)
        if len(partial) * len(rows) > 50 * MOST:
            raise Unclear
        partial = [
            Lived(env, a.ts if looked_up else max(a.ts, b.ts), a.exp if looked_up else min(a.exp, b.exp))
            for a in partial
            for b in rows
            if (b.ts <= a.ts < b.exp if looked_up else max(a.ts, b.ts) < min(a.exp, b.exp))
            and holds(ready, env := {**a.env, **b.env})
        ]
        if len(partial) > MOST:
            raise Unclear
    return partial


def _rows(moment: Moment, source: Source) -> list[tuple[Row, int, int]]:
    match source:
        case StreamSource(stream, _, window) if window.kind != "rows":
            time = moment.world.schema.stream(stream).time
            seen = [row for row in moment.world.accepted[stream] if moment.since < row[time] <= moment.tau]
            edges = [(row, *window.bounds(row[time])) for row in seen]
            return [
                (row, ts, END if exp is None else exp) for row, ts, exp in edges if exp is None or ts < exp
            ]
        case TableSource(table, _, False):
            return [(v.row, v.since, v.until) for v in moment.world.tables[table]]
        case SubSource(query) if not _is_distinct(query):
            return _results(moment, query)
    raise Unclear
