"""Holds what the engine said against what is true."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Self

from penstock.api.options import Options
from penstock.plan.catalog import Catalog
from penstock.testing.local_cells import Cells
from tests.oracle import duck, lifetimes
from tests.oracle.algebra import Relation, ToStream, is_grouped, patterns, streams, tables
from tests.oracle.case import Case
from tests.oracle.model import BEGINNING, END, World
from tests.oracle.replay import Breach, Change, Row, views
from tests.oracle.scalar import Value
from tests.oracle.trace import Cut, Heard, Trace, record

Answers = dict[int, list[Row]]
MOST_INSTANTS = 400
"""Instants of one query at which the replayed changes are compared."""


class Mismatch(AssertionError):
    """The engine and the oracle disagree; `report` prints it for people."""

    def __init__(self, what: str, case: Case, query: int = 0, tau: int | None = None,
                 expected: list[Row] | None = None, got: list[Row] | None = None,
                 heard: Heard | None = None) -> None:  # fmt: skip
        self.what, self.case, self.query, self.tau = what, case, query, tau
        self.expected, self.got, self.heard = expected, got, heard
        super().__init__(what)

    def __str__(self) -> str:
        from tests.oracle.report import describe

        return describe(self)


@dataclass
class Tally:
    """τ at which an answer was compared: with `snapshot()`, and with the replayed changes."""

    snapshots: int = 0
    replays: int = 0
    exact: int = 0
    """Queries whose changes were compared one by one."""

    @property
    def comparisons(self) -> int:
        return self.snapshots + self.replays

    def __iadd__(self, other: Self) -> Self:
        self.snapshots += other.snapshots
        self.replays += other.replays
        self.exact += other.exact
        return self


def run_case(case: Case, how: Cut | None = None, options: dict[str, Any] | None = None) -> int:
    """Runs one case on the engine and returns the number of comparisons that held."""
    return check_case(case, how, options).comparisons


def check_case(
    case: Case, how: Cut | None = None, options: dict[str, Any] | None = None, cells: int = 0
) -> Tally:
    """Runs one case, in so many cells if there are any, and holds what it returned against what is true."""
    how = how or Cut(("random", "random", "whole", "single")[case.seed % 4], case.seed)
    try:
        trace = record(case, how, options, engine=partial(in_cells, cells, options) if cells else None)
    except Breach as breach:
        raise Mismatch(str(breach), case) from breach
    return judge(case, trace)


def in_cells(cells: int, options: dict[str, Any] | None, catalog: Catalog) -> Cells:
    """Several engines that share the work of one."""
    given = Options(**(options or {}))
    return Cells(catalog, cells, upkeep=given.upkeep, policies=given.policies)


def judge(case: Case, trace: Trace) -> Tally:
    """Raises `Mismatch` at the first thing that is wrong."""
    world = case.world()
    late = {name: len(rows) for name, rows in world.late.items()}
    if trace.late != late:
        raise Mismatch(f"late rows: expected {late}, got {trace.late}", case)
    oracle = duck.Oracle(world)
    tally = Tally()
    for index, query in enumerate(case.queries):
        heard = trace.queries[index]
        clock = heard.calls[-1][0] if heard.calls else BEGINNING  # it may have been dropped before the end
        try:
            contract(heard, query)
            check = to_stream if isinstance(query, ToStream) else relation
            tally += check(case, index, heard, world, oracle, clock)
        except Breach as breach:
            raise Mismatch(str(breach), case, index, heard=heard) from breach
        except Mismatch as mismatch:
            mismatch.heard = heard
            raise
    return tally


def contract(heard: Heard, query: Any) -> None:
    """What holds for every query, whatever the answer."""
    expected = patterns(query)
    if heard.pattern not in expected:
        raise Breach(f"pattern: expected {' or '.join(sorted(expected))}, got {heard.pattern!r}")
    before, start = BEGINNING, 0
    for clock, stop in heard.calls:
        for change in heard.changes[start:stop]:
            if change.op not in ("+", "-"):
                raise Breach(f"__op is '+' or '-': {change}")
            if change.ts is None or change.ts < before:
                raise Breach(f"__ts goes back (before: {before}): {change}")
            if change.ts > clock > BEGINNING:
                raise Breach(f"__ts is beyond the clock ({clock}): {change}")
            if change.op == "-" and heard.pattern != "STRICT":
                raise Breach(f"a {heard.pattern} query sends '-': {change}")
            if change.op == "-" and change.exp is not None and change.ts >= change.exp:
                raise Breach(f"'-' for an end already announced: {change}")
            if heard.pattern == "MONOTONIC" and change.exp is not None:
                raise Breach(f"a MONOTONIC query announces an end: {change}")
            before = change.ts
        start = stop


def relation(case: Case, index: int, heard: Heard, world: World, oracle: duck.Oracle, clock: int) -> Tally:
    """Snapshots and the replayed view, at the engine's own instants and at all others where Q may change."""
    query = case.queries[index]
    assert not isinstance(query, ToStream)
    since = world.registered[index]
    instants = moments(query, world, since, clock)
    first = min(instants, default=clock)  # before it a global aggregate's first row may come at any time
    instants |= {t for c in heard.changes for t in (c.ts, c.exp) if t is not None and first < t <= clock}
    instants |= {t - 1 for t in instants if t - 1 > since}
    chosen = sorted(instants)
    if len(chosen) > MOST_INSTANTS:
        chosen = sorted(random.Random(case.seed).sample(chosen, MOST_INSTANTS))
    answers = oracle.answers(query, since, sorted({*chosen, *heard.snapshots}))
    for tau, got in heard.snapshots.items():
        if not same(answers[tau], got, query.types):
            raise Mismatch("snapshot() differs from Q(τ)", case, index, tau, answers[tau], got)
    for tau, got in views(heard.changes, is_grouped(query), chosen):
        if not same(answers[tau], got, query.types):
            raise Mismatch("the replayed changes differ from Q(τ)", case, index, tau, answers[tau], got)
    due = lifetimes.changes(world, query, since, clock)
    if due is not None:
        first = (
            max(first, since + 2) if is_grouped(query) else first
        )  # a first empty row may come at since + 1
        exact(case, index, heard, [d for d in due if d[1] >= first], first)
    return Tally(len(heard.snapshots), len(chosen), due is not None)


def exact(case: Case, index: int, heard: Heard, due: list[lifetimes.Due], first: int) -> None:
    """Where lifetimes leave no choice, the changes are exactly those due."""
    expected, got = (
        by_moment(due),
        by_moment([(c.op, c.ts, c.exp, c.row) for c in heard.changes if c.ts >= first]),
    )
    for moment in sorted({*expected, *got}, key=lambda m: (m[1], m[0], m[2] or 0)):
        one, other = expected.get(moment, []), got.get(moment, [])
        if not same(one, other, case.queries[index].types):
            op, ts, exp = moment
            again = not one and all(shown_before(heard, ts, exp, row) for row in other)
            what = "a row is sent again unchanged" if again else "changes() differ from those due"
            raise Mismatch(f"{what}: '{op}' with __exp {exp}", case, index, ts, one, other)


def shown_before(heard: Heard, ts: int, exp: int | None, row: Row) -> bool:
    return any(c.op == "+" and c.ts < ts and (c.exp, c.row) == (exp, row) for c in heard.changes)


def by_moment(changes: list[lifetimes.Due]) -> dict[tuple[str, int, int | None], list[Row]]:
    """Rows by (op, ts, exp)."""
    found: dict[tuple[str, int, int | None], list[Row]] = {}
    for op, ts, exp, row in changes:
        found.setdefault((op, ts, exp), []).append(row)
    return found


def moments(query: Relation, world: World, since: int, clock: int) -> set[int]:
    """Every instant in (since, clock] at which Q may change."""
    found = set()
    for source in streams(query):
        time = world.schema.stream(source.stream).time
        for row in world.accepted[source.stream]:
            if row[time] > since:
                found.update(t for t in source.window.bounds(row[time]) if t is not None)
    for table in tables(query):
        found.update(t for v in world.tables[table.table] for t in (v.since, v.until) if BEGINNING < t < END)
    return {int(t) for t in found if since < t <= clock}


def to_stream(case: Case, index: int, heard: Heard, world: World, oracle: duck.Oracle, clock: int) -> Tally:
    """ISTREAM, DSTREAM: differences by value; RSTREAM: all of it at each change, and never anything else."""
    query = case.queries[index]
    assert isinstance(query, ToStream)
    since = world.registered[index]
    instants = sorted(moments(query.query, world, since, clock))
    said: dict[int, list[Row]] = {}
    for change in heard.changes:
        said.setdefault(change.ts, []).append(change.row)
    if not instants:
        return Tally()
    start = instants[0] - 1
    taus = sorted({start, *instants, *(t for t in said if start < t <= clock)})
    answers = oracle.answers(query.query, since, taus)
    if start == since:  # nothing was there before the first instant, not even a global aggregate's row
        answers[start] = []
    early = [row for ts, rows in said.items() if ts <= start for row in rows]
    first = answers[start] if query.kind != "dstream" else []
    if not same(first, early, query.types):
        raise Mismatch(f"{query.kind.upper()} before anything happened", case, index, start, first, early)
    for before, tau in pairwise(taus):
        old, new = Counter(answers[before]), Counter(answers[tau])
        got = said.get(tau, [])
        expected = {"istream": new - old, "dstream": old - new, "rstream": new}[query.kind]
        silent = query.kind == "rstream" and not got and old == new
        if not silent and not same(list(expected.elements()), got, query.types):
            what = f"{query.kind.upper()} differs from the difference of answers"
            raise Mismatch(what, case, index, tau, list(expected.elements()), got)
    return Tally(0, len(taus))


def same(expected: list[Row], got: list[Row], types: tuple[str, ...]) -> bool:
    """Equal as multisets; doubles to 1e-9."""
    if len(expected) != len(got):
        return False
    if Counter(expected) == Counter(got):
        return True
    if not {"DOUBLE", "FLOAT"} & set(types):
        return False
    left = list(got)
    for row in expected:
        match = next((i for i, other in enumerate(left) if close_rows(row, other)), None)
        if match is None:
            return False
        left.pop(match)
    return True


def close_rows(a: Row, b: Row) -> bool:
    return len(a) == len(b) and all(map(close, a, b))


def close(a: Value, b: Value) -> bool:
    if isinstance(a, float) and isinstance(b, float | int):
        return a == b or (a != a and b != b) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return bool(a == b)


def cut_free(trace: Trace) -> list[Counter[Change]]:
    """What may not depend on the cut: per query, the multiset of all changes."""
    return [Counter(heard.changes) for heard in trace.queries]
