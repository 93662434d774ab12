"""Draws a large case from a seed: how many rows, which values, in which pushes, and when it is looked at."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.oracle.algebra import Query, Relation, Select, StreamSource, ToStream, Window
from tests.oracle.algebra import streams as streams_of
from tests.oracle.large.course import AMPLE, Advance, Array, Case, Drop, Event, Look, Push, Register, Update
from tests.oracle.large.data import Series, Stream, Table
from tests.oracle.large.queries import Maker
from tests.oracle.scalar import Call, Col, Lit

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
GROUPS = ("INT", "INT", "STRING", "TINYINT", "BOOLEAN", "DATE", "SMALLINT", "TIMESTAMP", "DOUBLE")
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
    "routing": ("tickets", "fixed", "random", "worst"),
}
TREES = ("bushy", "right-deep", "left-deep")
ALLOCATIONS = ("prefer", "promote", "semantic", "random", "fifo")
MANY = 100_000
"""Rows from which on a case has fewer queries."""


def make(seed: int, least: int = 50, most: int = 200_000, dense: bool = False, lean: float = 1.0) -> Case:
    """The case of this seed, with between `least` and `most` rows; `dense`: rows at many instants.

    The size is drawn log-uniformly; the more `lean` is above 1, the more cases are nearer to the least.
    """
    rng = random.Random(f"penstock large {seed}")
    total = int(least * (most / least) ** (rng.random() ** lean))
    return _Drawing(rng, total, dense).case(seed)


def some_options(rng: random.Random) -> dict[str, Any]:
    """Options of a session, often none; none of them changes an answer or when it comes."""
    if rng.random() < 0.4:
        return {}
    chosen = rng.sample(sorted(OPTIONS), rng.choice((1, 1, 2, 3)))
    made = {name: rng.choice(OPTIONS[name]) for name in chosen}
    return made | ({"tree": rng.choice(TREES)} if made.get("join") == "tree" else {})


@dataclass
class _Drawing:
    rng: random.Random
    total: int
    dense: bool
    unique: bool = False
    """Whether a value of `u` comes only once in a stream."""
    zipf: bool = False
    """Whether a few values of `k` come much more often than others."""
    span: int = 1
    delay: int = 0
    late: float = 0.0
    kinds: dict[str, str] = field(default_factory=dict)

    def case(self, seed: int) -> Case:
        rng = self.rng
        timestamps = rng.random() < 0.15
        streams = self.streams()
        tables = self.tables(max(s.n for s in streams))
        options = self.options()
        waits = 0 <= dict(options).get("budget", AMPLE) < AMPLE
        span = max(int(s.ts.max() - s.ts.min()) for s in streams) or 1
        names = tuple(s.name for s in streams)
        maker = Maker(rng, names, self.kinds, max(s.n for s in streams), span, timestamps,
                      tuple((t.name, t.retroactive) for t in tables), 1 if self.zipf else 3, self.unique)  # fmt: skip
        many = self.total >= MANY
        queries: list[Query] = [
            maker.query() for _ in range(rng.choice((1, 1, 2, 3) if many else (1, 1, 2, 2, 3, 5)))
        ]
        read = {s.stream for q in queries for s in streams_of(q)}
        queries += [_keeper(name) for name in names if name not in read]
        # The first queries keep every stream in use; others come later and may go.
        first = len(queries)
        for _ in range(rng.choice((0, 0, 0, 1) if many else (0, 0, 1, 2))):
            queries.append(rng.choice(queries) if rng.random() < 0.5 else maker.query())
        course = _Course(rng, streams, tables, queries, first, span, waits, rare=many)
        cells = rng.choice((2, 3, 6)) if rng.random() < 0.1 else 0
        return Case(seed, streams, tuple(queries), course.events(), options, timestamps, tables, cells)

    def options(self) -> tuple[tuple[str, Any], ...]:
        rng = self.rng
        made = some_options(rng)
        if "eager" in made:  # state is looked at some 100,000 times at most
            made["eager"] = max(made["eager"], self.span // 100_000)
        if rng.random() < 0.08:
            made["budget"] = rng.choice((AMPLE, 10, self.total // 50, self.total * 3))
            made["allocation"] = rng.choice(ALLOCATIONS)
        return tuple(made.items())

    # -- data ---------------------------------------------------------------------------------------------

    def streams(self) -> tuple[Stream, ...]:
        rng, total, dense = self.rng, self.total, self.dense
        count = rng.choice((1, 2, 2, 2, 3))
        shares = [rng.choice((1, 1, 1, 0.3, 0.03)) for _ in range(count)]
        sizes = [max(-int(-total * share // sum(shares)), 1) for share in shares]  # no fewer rows than wanted
        n = max(sizes)
        self.span = span = max(int(n * rng.choice((1, 3) if dense else (0.0025, 0.01, 0.1, 1, 3))), 4)
        origin = rng.choice((0, 0, 0, -(10**6), 10**12))
        style = rng.choice(("steps", "random") if dense else ("steps", "steps", "random", "bursts"))
        self.delay = rng.choice((0, 0, 0, span // 50))
        self.late = rng.choice((0.0, 0.0, 0.001, 0.1))
        self.kinds = {
            "k": rng.choice(KEYS),
            "u": rng.choice(KEYS),
            "g": rng.choice(GROUPS),
            "x": "INT",
            "d": "DOUBLE",
        }
        pairs = rng.choice((1, 2, 2, 3))
        ordered = [rng.choice((1, 2, 5)) if rng.random() < 0.15 else 0 for _ in sizes]
        self.unique = self.kinds["u"] not in CEILING and all((o or pairs) == 1 for o in ordered)
        texts = self.texts(n, pairs)
        return tuple(
            Stream(name, size, self.series(texts | ({"u": f"i // {copies}"} if copies else {}), name, (style, size, span, origin)), delay=self.delay)
            for name, size, copies in zip("abc", sizes, ordered, strict=False)
        )  # fmt: skip

    def texts(self, n: int, pairs: int) -> dict[str, str]:
        """NumPy expressions of the columns, with places for seeds."""
        rng = self.rng
        values = max(int(n / rng.choice((0.5, 1, 2, 2) if n < 200_000 else (0.5, 1))), 1)
        groups = max(int(rng.choice((1, 7, 100, n**0.5, n / 10))), 1)
        texts = {
            "k": f"draw({{}}).integers(0, {values}, n)",
            "u": f"draw({{}}).permutation({n})[:n] // {pairs}",
            "g": f"draw({{}}).integers(0, {groups}, n)",
            "x": "draw({}).integers(-100, 100, n)",
            "d": "draw({}).integers(-400, 400, n)",
        }
        match rng.choice(("even", "even", "one value", "zipf")):
            case "one value":  # joins of three make some eight times as many rows
                texts["k"] = f"np.where(draw({{}}).random(n) < {2 * n ** (1 / 3) / n:.6f}, 0, {texts['k']})"
            case "zipf":  # joins of two make some twice as many rows; no more than two are joined
                self.zipf = True
                texts["k"] = f"zipf({{}}, n, {values}, {n**0.5:.0f})"
        if groups > 7 and rng.random() < 0.3:
            texts["g"] = f"zipf({{}}, n, {groups}, n)"
        self.nulls = {c: rng.choice((0, 0, 0.01, 0.2)) for c in "kuxg"}
        return texts

    def series(
        self, texts: dict[str, str], name: str, times: tuple[str, int, int, int] | None
    ) -> tuple[Series, ...]:
        rng = self.rng
        columns = []
        if times is not None:
            columns.append(Series("ts", "TIME", self.times(*times, rng.randint(0, 10**6))))
        for column, text in texts.items():
            kind = self.kinds[column]
            drawn = [rng.randint(0, 10**6) for _ in range(3)]
            text = text.format(*drawn)
            if kind in CEILING:
                text = f"({text}) % {CEILING[kind]}"
            share = self.nulls.get(column, 0)
            mask = f"draw({drawn[2]}).random(n) < {share}" if share else ""
            columns.append(Series(column, kind, text, mask))
        return tuple(columns)

    def times(self, style: str, n: int, span: int, origin: int, seed: int) -> str:
        """Instants in order, each at most the delay before its place, or so far that it is late."""
        match style:
            case "steps":
                text = f"i * {span} // n" if n < span else f"i // {max(n // span, 1)}"
            case "random":
                text = f"np.sort(draw({seed}).integers(0, {span}, n))"
            case _:
                text = f"np.sort(draw({seed}).integers(0, 9, n)) * {max(span // 9, 1)}"
        if self.delay:
            text += f" - draw({seed + 1}).integers(0, {self.delay + 1}, n)"
        if self.late:
            early = f"draw({seed + 2}).integers(1, {max(span // 20, 2)}, n)"
            text += f" - (draw({seed + 3}).random(n) < {self.late}) * {early}"
        return f"{text} + {origin}"

    def tables(self, n: int) -> tuple[Table, ...]:
        """At most one table of each kind; keys are spread evenly, so that a row has few partners."""
        made = []
        for name, retroactive in (("n", False), ("r", True)):
            if self.rng.random() < 0.3:
                size = max(int(n ** self.rng.uniform(0.3, 0.95)), 4)
                texts = {
                    "k": f"draw({{}}).permutation({n})[:n]",
                    "u": f"draw({{}}).permutation({n})[:n]",
                    "g": "draw({}).integers(0, 100, n)",
                    "x": "draw({}).integers(-100, 100, n)",
                    "d": "draw({}).integers(-400, 400, n)",
                }
                columns = self.series(texts, name, None)
                first = self.rng.choice((0, size // 2, size - 1))
                made.append(Table(name, size, columns, retroactive=retroactive, first=first))
        return tuple(made)


def _keeper(name: str) -> Relation:
    """A query that reads a stream and answers next to nothing."""
    where = (Call("<", (Col("t", "x", "INT"), Lit(-99, "INT")), "BOOLEAN"),)
    return Select((Col("t", "x", "INT"),), (StreamSource(name, "t", Window("now", 1)),), (), where)


# -- events -----------------------------------------------------------------------------------------------


class _Course:
    """Rounds of pushes, with all that may happen between them."""

    def __init__(self, rng: random.Random, streams: tuple[Stream, ...], tables: tuple[Table, ...], queries: list[Query],
                 first: int, span: int, waits: bool, rare: bool) -> None:  # fmt: skip
        self.rng, self.streams, self.tables, self.queries = rng, streams, tables, queries
        self.span, self.waits, self.rare = span, waits, rare
        self.running = list(range(first))
        self.waiting = list(range(first, len(queries)))
        self.live: list[int] = []
        self.made: list[Event] = [Register(i) for i in self.running]
        self.done = {s.name: 0 for s in streams}
        self.latest: dict[str, Array] = {s.name: np.maximum.accumulate(s.ts) for s in streams}
        self.held = {t.name: (0, t.first) for t in tables}
        """Positions of the rows that a table holds: rows go in the order in which they came."""

    def events(self) -> tuple[Event, ...]:
        rng = self.rng
        rounds = rng.choice((1, 2, 3, 5, 10, 30))
        begin = min(int(s.ts.min()) for s in self.streams)
        looks = (2 if self.rare else 3) / (rounds + 3)
        if rng.random() < 0.3:
            self.update()
        for number in range(1, rounds + 1):
            self.push(begin + self.span * number // rounds, last=number == rounds)
            if rng.random() < 0.3:
                self.advance(begin)
            if rng.random() < min(0.5, 4 / rounds):
                self.update()
            self.look(looks)
            self.come_and_go()
        self.end()
        return tuple(self.made)

    def push(self, until: int, last: bool) -> None:
        rng = self.rng
        for stream in rng.sample(self.streams, len(self.streams)):
            name, drawn = stream.name, rng.random()
            if drawn < 0.05:
                self.made.append(Push(name, self.done[name], self.done[name]))
            if drawn > 0.9 and not last:
                continue  # idle for a while
            stop = stream.n if last else int(np.searchsorted(self.latest[name], until, "right"))
            if stop > self.done[name]:
                size = stop - self.done[name]
                parts = rng.choice((1, 1, 1, 4, 30)) if rng.random() < 0.8 else max(min(size // 200, 300), 1)
                self.made.append(Push(name, self.done[name], stop, parts))
                self.done[name] = stop

    def advance(self, begin: int) -> None:
        """Mostly to just before the rows still to come; sometimes past some, which are late then."""
        rng = self.rng
        left = [int(s.ts[self.done[s.name] :].min()) for s in self.streams if self.done[s.name] < s.n]
        came = [int(self.latest[name][done - 1]) for name, done in self.done.items() if done]
        reached = max(came, default=begin)
        to = min([reached, *(t - 1 for t in left)])
        if rng.random() < 0.1:
            to = reached + rng.randint(0, max(self.span // 100, 1))
        self.made += [Advance(to)] * rng.choice((1, 1, 1, 2))

    def update(self) -> None:
        if not self.tables:
            return
        rng = self.rng
        table = rng.choice(self.tables)
        start, stop = self.held[table.name]
        gone = min(start + int((stop - start) * rng.choice((0, 0.001, 0.1, 0.5, 1))), stop)
        new = stop + int((table.n - stop) * rng.choice((0, 0.01, 0.3, 1)))
        ahead = rng.choice((None, None, 0, max(self.span // 50, 1)))
        if (start, stop) != (gone, new):
            self.made.append(Update(table.name, (stop, new), (start, gone), ahead))
            self.held[table.name] = gone, new

    def look(self, share: float) -> None:
        if not self.waits:
            self.made += [Look(q, self.rng.random() < 0.7) for q in self.running if self.rng.random() < share]

    def come_and_go(self) -> None:
        rng = self.rng
        if self.waiting and rng.random() < 0.5:
            self.live.append(self.waiting.pop())
            self.made.append(Register(self.live[-1]))
            self.running.append(self.live[-1])
        elif self.live and rng.random() < 0.3:
            gone = self.live.pop()
            self.running.remove(gone)
            self.made += [Look(gone), Drop(gone)]

    def end(self) -> None:
        """Windows run empty, step by step, or not."""
        rng = self.rng
        end = max(int(s.ts.max()) for s in self.streams)
        longest = max([int(s.window.length) for q in self.queries for s in streams_of(q)], default=1)
        counts = (0, 1, 2) if self.rare else (1, 2, 4)
        steps = sorted({0, *(int(longest * rng.uniform(0, 1.2)) for _ in range(rng.choice(counts)))})
        if rng.random() < 0.5:
            steps.append(3 * longest + 10)
        for step in steps:
            self.made.append(Advance(end + step))
            if rng.random() < 0.2:
                self.update()
            if not self.waits:
                self.made += [Look(q) for q in self.running if rng.random() < (0.4 if self.rare else 0.6)]
        self.made += [Look(q, not isinstance(self.queries[q], ToStream)) for q in self.running]
