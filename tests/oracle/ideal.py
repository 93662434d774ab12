"""A stand-in for the engine, made from the answers themselves: every change is sent as '-' and '+', no end is
ever announced. It keeps the judge honest: a true trace must pass, a spoiled one must not."""

from __future__ import annotations

from collections import Counter

from .algebra import ToStream, is_grouped, key_positions, patterns
from .case import Case
from .check import moments
from .duck import Oracle
from .replay import Change
from .trace import Heard, Trace


def perfect(case: Case) -> Trace:
    """What an engine without foresight would say, at the end of the case."""
    world = case.world()
    oracle = Oracle(world)
    trace = Trace([], {name: len(rows) for name, rows in world.late.items()}, world.clock)
    for index, query in enumerate(case.queries):
        inner = query.query if isinstance(query, ToStream) else query
        since = world.registered[index]
        instants = sorted(moments(inner, world, since, world.clock))
        heard = Heard("STRICT" if "STRICT" in patterns(query) else next(iter(patterns(query))))
        taus = [max(since, -(2**61)), *instants] if instants else []
        answers = oracle.answers(inner, since, sorted({*taus, world.clock}))
        places = (key_positions(inner) or ()) if is_grouped(query) else ()
        old: Counter[tuple[object, ...]] = Counter()
        for tau in taus:
            new = Counter(answers[tau])
            if isinstance(query, ToStream):
                signs = {"istream": (new - old,), "dstream": (old - new,), "rstream": (new if new != old else Counter(),)}
                parts = [("+", signs[query.kind][0])]
            else:
                parts = [("-", old - new), ("+", new - old)]
            for op, rows in parts:
                heard.changes += [Change(op, tau, None, r, tuple(r[p] for p in places)) for r in rows.elements()]
            old = new
        heard.calls = [(world.clock, len(heard.changes))]
        if not isinstance(query, ToStream):
            heard.snapshots = {world.clock: answers[world.clock]}
        trace.queries.append(heard)
    return trace
