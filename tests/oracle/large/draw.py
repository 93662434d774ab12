"""Draws a large case from a seed: how many rows, which values, in which pushes, and when it is looked at."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from ..algebra import Relation, Select, StreamSource, Window
from ..algebra import streams as streams_of
from ..scalar import Call, Col, Lit
from .course import Advance, Case, Drop, Event, Look, Push, Register
from .data import Series, Stream
from .queries import Maker

KEYS = (
    "INT",
    "INT",
    "BIGINT",
    "BIGINT",
    "STRING",
    "STRING",
    "DOUBLE",
    "TIMESTAMP",
    "DATE",
    "SMALLINT",
    "FLOAT",
)
GROUPS = ("INT", "INT", "STRING", "TINYINT", "BOOLEAN", "DATE", "SMALLINT")
CEILING = {"TINYINT": 100, "SMALLINT": 30_000, "FLOAT": 4_000_000, "DATE": 2_000_000}
OPTIONS: dict[str, tuple[Any, ...]] = {
    "expiry": ("direct", "negative", "hybrid"),
    "join": ("eddy", "tree", "mjoin"),
    "demand": ("doe", "off"),
    "eager": (1, 7, 1000),
    "lazy": (0.0, 0.5, 1.0),
    "partitions": (1, 3, 50),
    "share": (False,),
    "replan": (False,),
    "routing": ("tickets", "fixed", "random"),
}


def make(seed: int, least: int = 50, most: int = 200_000, dense: bool = False) -> Case:
    """The case of this seed, with between `least` and `most` rows, drawn log-uniformly; `dense`: rows at many instants."""
    rng = random.Random(f"penstock large {seed}")
    total = int(least * (most / least) ** rng.random())
    timestamps = rng.random() < 0.15
    streams = _streams(rng, total, dense)
    span = max(int(s.ts.max() - s.ts.min()) for s in streams) or 1
    kinds = {s.name: s.kind for s in streams[0].series if s.kind != "TIME"}
    names = tuple(s.name for s in streams)
    queries: list[Relation] = []
    for _ in range(rng.choice((1, 1, 2, 2, 3, 5) if total < 100_000 else (1, 1, 1, 2, 3))):
        queries.append(Maker(rng, names, kinds, max(s.n for s in streams), span, timestamps).query())
    first = len(queries)
    read = {s.stream for q in queries for s in streams_of(q)}
    queries += [_keeper(name) for name in names if name not in read]
    # Queries that are registered late or dropped are copies: the first ones keep every stream in use.
    queries += [
        rng.choice(queries[:first]) for _ in range(rng.choice((0, 0, 1, 2)) if total < 100_000 else 0)
    ]
    events = _course(rng, streams, queries, first, span)
    return Case(seed, streams, tuple(queries), events, _options(rng), timestamps)


def _keeper(name: str) -> Relation:
    """A query that reads a stream and answers next to nothing."""
    where = (Call("<", (Col("t", "x", "INT"), Lit(-99, "INT")), "BOOLEAN"),)
    return Select((Col("t", "x", "INT"),), (StreamSource(name, "t", Window("now", 1)),), (), where)


def _options(rng: random.Random) -> tuple[tuple[str, Any], ...]:
    if rng.random() < 0.4:
        return ()
    chosen = rng.sample(sorted(OPTIONS), rng.choice((1, 1, 2, 3)))
    made = {name: rng.choice(OPTIONS[name]) for name in chosen}
    if rng.random() < 0.06:
        made["budget"] = 10**12
    return tuple(made.items())


# -- data -------------------------------------------------------------------------------------------------


def _streams(rng: random.Random, total: int, dense: bool) -> tuple[Stream, ...]:
    count = rng.choice((1, 2, 2, 2, 3))
    shares = [rng.choice((1, 1, 1, 0.3, 0.03)) for _ in range(count)]
    sizes = [max(int(total * share / sum(shares)), 1) for share in shares]
    n = max(sizes)
    span = max(int(n * rng.choice((1, 3) if dense else (0.0025, 0.01, 0.1, 1, 3))), 4)
    origin = rng.choice((0, 0, 0, -(10**6), 10**12))
    style = rng.choice(("steps", "random") if dense else ("steps", "steps", "random", "bursts"))
    delay = rng.choice((0, 0, 0, span // 50))
    kinds = {"k": rng.choice(KEYS), "u": rng.choice(KEYS), "g": rng.choice(GROUPS)}
    nulls = {c: rng.choice((0, 0, 0.01, 0.2)) for c in "kuxg"}
    values = max(int(n / rng.choice((0.5, 1, 2, 2) if n < 200_000 else (0.5, 1))), 1)
    groups = max(int(rng.choice((1, 7, 100, n**0.5, n / 10))), 1)
    skew = rng.choice((0.0, 0.0, 2 * n ** (1 / 3) / n))
    pairs = rng.choice((1, 2, 2, 3))
    made = []
    for name, size in zip("abc", sizes, strict=False):
        texts = {
            "k": f"draw({{}}).integers(0, {values}, n)",
            "u": f"draw({{}}).permutation({n})[:n] // {pairs}",
            "g": f"draw({{}}).integers(0, {groups}, n)",
            "x": "draw({}).integers(-100, 100, n)",
            "d": "draw({}).integers(-400, 400, n)",
        }
        if skew:
            texts["k"] = f"np.where(draw({{}}).random(n) < {skew:.6f}, 0, {texts['k']})"
        if rng.random() < 0.15:
            texts["u"] = f"i // {rng.choice((1, 2, 5))}"
        columns = [Series("ts", "TIME", _times(style, size, span, origin, delay, rng.randint(0, 10**6)))]
        for column, text in texts.items():
            kind = {"x": "INT", "d": "DOUBLE"}.get(column) or kinds[column]
            drawn = [rng.randint(0, 10**6) for _ in range(3)]
            text = text.format(*drawn)
            if kind in CEILING:
                text = f"({text}) % {CEILING[kind]}"
            share = nulls.get(column, 0)
            mask = f"draw({drawn[2]}).random(n) < {share}" if share else ""
            columns.append(Series(column, kind, text, mask))
        made.append(Stream(name, size, tuple(columns), delay))
    return tuple(made)


def _times(style: str, n: int, span: int, origin: int, delay: int, seed: int) -> str:
    """Instants in order, each at most `delay` before its place."""
    match style:
        case "steps":
            text = f"i * {span} // n" if n < span else f"i // {max(n // span, 1)}"
        case "random":
            text = f"np.sort(draw({seed}).integers(0, {span}, n))"
        case _:
            text = f"np.sort(draw({seed}).integers(0, 9, n)) * {max(span // 9, 1)}"
    late = f" - draw({seed + 1}).integers(0, {delay + 1}, n)" if delay else ""
    return f"{text}{late} + {origin}"


# -- events -----------------------------------------------------------------------------------------------


def _course(
    rng: random.Random, streams: tuple[Stream, ...], queries: list[Relation], first: int, span: int
) -> tuple[Event, ...]:
    copies = [i for i in range(first, len(queries)) if queries[i] in queries[:first]]
    events: list[Event] = [Register(i) for i in range(len(queries)) if i not in copies]
    waiting, live = list(copies), []
    running = list(range(first))
    rounds = rng.choice((1, 2, 3, 5, 10, 30))
    latest = {s.name: np.maximum.accumulate(s.ts) for s in streams}
    begin = min(int(s.ts.min()) for s in streams)
    done = dict.fromkeys(latest, 0)
    looks = 3 / (rounds + 3)
    for number in range(1, rounds + 1):
        until = begin + span * number // rounds + (number == rounds)
        for stream in rng.sample(streams, len(streams)):
            if number < rounds and rng.random() < 0.1:
                continue  # idle for a while
            stop = int(np.searchsorted(latest[stream.name], until, "right")) if number < rounds else stream.n
            if stop > done[stream.name]:
                size = stop - done[stream.name]
                parts = rng.choice((1, 1, 1, 4, 30)) if rng.random() < 0.8 else max(min(size // 200, 300), 1)
                events.append(Push(stream.name, done[stream.name], stop, parts))
                done[stream.name] = stop
        if rng.random() < 0.3:
            left = [int(s.ts[done[s.name] :].min()) for s in streams if done[s.name] < s.n]
            reached = (
                max(int(latest[s.name][done[s.name] - 1]) for s in streams if done[s.name])
                if any(done.values())
                else begin
            )
            events.append(Advance(min([reached, *(t - 1 for t in left)])))
        events += [Look(q, rng.random() < 0.7) for q in running if rng.random() < looks]
        if waiting and rng.random() < 0.5:
            live.append(waiting.pop())
            events.append(Register(live[-1]))
            running.append(live[-1])
        elif live and rng.random() < 0.3:
            gone = live.pop()
            running.remove(gone)
            events += [Look(gone), Drop(gone)]
    end = max(int(s.ts.max()) for s in streams)
    longest = max([int(s.window.length) for q in queries for s in streams_of(q)], default=1)
    steps = sorted({0, *(int(longest * rng.uniform(0, 1.2)) for _ in range(rng.choice((1, 2, 4))))})
    if rng.random() < 0.5:
        steps.append(3 * longest + 10)
    for step in steps:
        events.append(Advance(end + step))
        events += [Look(q) for q in running if rng.random() < 0.6]
    events += [Look(q) for q in running]
    return tuple(events)
