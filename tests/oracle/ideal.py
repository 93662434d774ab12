"""A stand-in for the engine, made from the answers themselves. It announces ends where lifetimes tell them, and
elsewhere sends every change as '-' and '+'. It keeps the judge honest: a true trace must pass, a spoiled one not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.oracle.algebra import ToStream, is_grouped, key_positions, patterns
from tests.oracle.case import Case
from tests.oracle.check import moments
from tests.oracle.duck import Oracle
from tests.oracle.lifetimes import Due
from tests.oracle.lifetimes import changes as due_changes
from tests.oracle.replay import Change, Row
from tests.oracle.trace import Heard, Trace


def perfect(case: Case) -> Trace:
    """What the engine should say by the end of the case."""
    world = case.world()
    oracle = Oracle(world)
    trace = Trace([], {name: len(rows) for name, rows in world.late.items()}, world.clock)
    for index, query in enumerate(case.queries):
        inner = query.query if isinstance(query, ToStream) else query
        since = world.registered[index]
        instants = sorted(moments(inner, world, since, world.clock))
        start = max(since, -(2**61))
        answers = oracle.answers(inner, since, sorted({start, *instants, world.clock}))
        due = None if isinstance(query, ToStream) else due_changes(world, query, since, world.clock)
        if isinstance(query, ToStream) and instants[:1] == [start + 1]:
            answers[start] = []  # nothing was there yet, not even a global aggregate's row
        if due is None:
            due = list(
                differences(query.kind if isinstance(query, ToStream) else "", answers, [start, *instants])
            )
        else:
            due = [*(("+", start, None, row) for row in answers[start]), *due]
        places = (key_positions(inner) or ()) if is_grouped(query) else ()
        heard = Heard("STRICT" if "STRICT" in patterns(query) else min(patterns(query)))
        heard.changes = [Change(*d, tuple(d[3][p] for p in places)) for d in due]
        heard.calls = [(world.clock, len(heard.changes))]
        if not isinstance(query, ToStream):
            heard.snapshots = {world.clock: answers[world.clock]}
        trace.queries.append(heard)
    return trace


def differences(kind: str, answers: dict[int, list[Row]], taus: list[int]) -> Iterator[Due]:
    """What came and went between instants; for a stream, what it says of that."""
    old: Counter[Row] = Counter()
    for tau in taus:
        new = Counter(answers[tau])
        said = {
            "": [("-", old - new), ("+", new - old)],
            "istream": [("+", new - old)],
            "dstream": [("+", old - new)],
            "rstream": [("+", new if new != old else Counter[Row]())],
        }[kind]
        for op, rows in said:
            yield from ((op, tau, None, row) for row in rows.elements())
        old = new
