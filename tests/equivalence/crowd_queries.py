"""A crowd of queries as text: many of them alike, so that there is something to share, and each a little different.

A crowd has a few *cores* (what to read and how to join it) and few constants per column. A query takes a core, perhaps
other windows and predicates of its own, and ends in a *tail*: a projection, DISTINCT, GROUP BY, a set operation, NOT EXISTS. Some queries are the
oracle's, which nest all of that, and some are said twice.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from tests.equivalence import crowd_rows
from tests.oracle import features
from tests.oracle.algebra import patterns, sql
from tests.oracle.queries import Maker
from tests.oracle.scalar import moment
from tests.oracle.schema import STRINGS, Schema

Column = tuple[str, str]
"""As it is written, and its type."""

NUMBERS = ("INT", "BIGINT", "SMALLINT", "DOUBLE", "FLOAT")
SYMBOLS = ("=", "=", "<>", "<", "<=", ">", ">=")
USUAL = {
    "INT": ("0", "1", "2", "3", "4", "2.5"),
    "BIGINT": ("-1", "0", "1", "2", "4", "2.5"),
    "SMALLINT": ("-1", "0", "1", "3", "4", "1.5"),
    "DOUBLE": ("0", "0.1", "0.25", "1", "1.5"),
    "FLOAT": ("0", "0.1", "0.25", "1", "1.5"),
    "STRING": ("''", "'a'", "'b'", "'ab'", "'A'"),
    "BOOLEAN": ("TRUE", "FALSE"),
    "TIMESTAMP": tuple(f"TIMESTAMP '{m}'" for m in crowd_rows.MOMENTS[:4]),
    "DATE": tuple(f"DATE '{d}'" for d in crowd_rows.DAYS[:3]),
}
WILD = {
    "INT": ("NULL", "2147483647", "-2147483648", "2.0", "-0.5", "1e10", "4000000000", "-2"),
    "BIGINT": ("NULL", "9223372036854775807", "-9223372036854775808", "-9223372036854775808", "9007199254740993", "1e300"),
    "SMALLINT": ("NULL", "32767", "-32768", "40000", "-0.5"),
    "DOUBLE": ("NULL", "-0.0", "1e308", "-1e308", "5e-324", "9007199254740993",
               "CAST('NaN' AS DOUBLE)", "CAST('Infinity' AS DOUBLE)", "CAST('-Infinity' AS DOUBLE)"),
    "FLOAT": ("NULL", "-0.0", "1e300", "CAST('NaN' AS DOUBLE)", "CAST(0.1 AS FLOAT)", "CAST('Infinity' AS DOUBLE)"),
    "STRING": ("NULL", "'zz'", *("'" + text.replace("'", "''") + "'" for text in STRINGS)),
    "BOOLEAN": ("NULL", "TRUE"),
    "TIMESTAMP": ("NULL", "TIMESTAMP '0001-01-01 00:00:00'", "TIMESTAMP '9999-12-31 23:59:59.999999'",
                  "TIMESTAMP '2024-01-01 08:00:00.000001'"),
    "DATE": ("NULL", "DATE '0001-01-01'", "DATE '9999-12-31'"),
}  # fmt: skip
LIKES = ("a%", "b%", "A%", "%a%", "%b", "%", "", "_", "a_", "%é%", "100%", "o'%")


@dataclass(frozen=True, slots=True)
class Asked:
    text: str
    exact: bool
    """No sums and no choice between equal rows: every value is the same to the last bit."""
    keep: bool
    """Registered so that a snapshot can be taken even if it is MONOTONIC."""


@dataclass(frozen=True, slots=True)
class Core:
    """(stream, alias) of each source, and how they are joined."""

    sources: tuple[tuple[str, str], ...]
    joins: tuple[str, ...] = ()


@dataclass
class Writer:
    rng: random.Random
    schema: Schema
    functions: bool
    """Python functions may be called."""
    own: bool = False
    """Every query names its columns for itself: a sink of many queries has one type for a name."""
    names: str = "c"

    def __post_init__(self) -> None:
        enabled = (
            features.ALL - features.RECENT - {"nan", "star"} - (frozenset() if self.functions else {"udf"})
        )
        self.maker = Maker(self.rng, crowd_rows.tame(self.schema), enabled)
        few, self.wild = self.rng.choice((2, 4, 20)), self.rng.choice((0.1, 0.3))
        self.usual = {kind: self.rng.sample(pool, min(few, len(pool))) for kind, pool in USUAL.items()}
        self.joins = [self.join_core() for _ in range(self.rng.randint(2, 5))]

    # -- choices ------------------------------------------------------------------------------------------

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def columns(self, core: Core) -> list[Column]:
        plain = len(core.sources) == 1
        return [
            (name if plain else f"{alias}.{name}", kind)
            for stream, alias in core.sources
            for name, kind in self.schema.stream(stream).columns
        ]

    def crowd(self, size: int) -> list[Asked]:
        weights = self.rng.choice(((6, 2, 2, 1), (9, 0, 1, 0), (1, 6, 3, 1), (2, 2, 6, 2), (8, 2, 2, 1)))
        makers = (self.selection, self.joined, self.tail, self.nested)
        made: list[Asked] = []
        while len(made) < size:
            if made and self.chance(0.15):
                made.append(self.rng.choice(made))
                continue
            self.names = f"q{len(made)}_" if self.own else "c"
            made.append(self.rng.choices(makers, weights)[0]())
        return made

    # -- queries ------------------------------------------------------------------------------------------

    def selection(self) -> Asked:
        core = self.stream_core()
        return Asked(self.select(core, self.items(core)), True, self.chance(0.5))

    def joined(self) -> Asked:
        core = self.rng.choice(self.joins)
        if len(core.sources) > 2 and self.chance(0.2):
            core = self.fewer(core)
        return Asked(self.select(core, self.items(core)), True, self.chance(0.5))

    def nested(self) -> Asked:
        """One of the oracle's."""
        query = self.maker.query()
        return Asked(sql(query, self.names), False, "MONOTONIC" in patterns(query))

    def tail(self) -> Asked:
        core = self.rng.choice(self.joins) if self.chance(0.5) else self.stream_core()
        shape = self.rng.choice(("distinct", "group", "group", "having", "set", "set", "not exists"))
        columns = self.columns(core)
        key = self.of_kind(columns, "k")
        match shape:
            case "distinct":
                text = self.select(
                    core,
                    f"DISTINCT {key} AS {self.names}0, {self.rng.choice(columns)[0]} AS {self.names}1",
                    bounded=True,
                )
            case "group" | "having":
                text = self.select(core, f"{key} AS {self.names}0, {self.measures(columns)}", bounded=True)
                text += f" GROUP BY {key}"
                if shape == "having":
                    text += f" HAVING {self.rng.choice(('COUNT(*) > 1', f'MAX({key}) < 3', 'COUNT(*) <= 2'))}"
            case "set":
                word = self.rng.choice(
                    ("EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL", "UNION", "UNION ALL")
                )
                right = self.rng.choice(self.joins) if self.chance(0.3) else self.stream_core()
                other = self.of_kind(self.columns(right), "k")
                sides = (core, f"{key} AS {self.names}0"), (right, f"{other} AS {self.names}0")
                text = f" {word} ".join(self.select(side, item, bounded=True) for side, item in sides)
            case _:
                text = self.not_exists(core, key)
        return Asked(text, False, True)

    def not_exists(self, core: Core, key: str) -> str:
        stream = self.rng.choice(self.schema.streams).name
        window = self.maker.window(stream, 2, 20).sql()
        # A name that is written bare belongs to the inner block: the outer key has its alias.
        outer = key if "." in key else f"{core.sources[0][1]}.{key}"
        inner = f"SELECT 1 FROM {stream}{window} AS n1 WHERE n1.k = {outer}"
        if self.chance(0.4):
            inner += (
                f" AND {self.predicate([(f'n1.{n}', t) for n, t in self.schema.stream(stream).columns], 1)}"
            )
        return self.select(core, self.items(core), extra=(f"NOT EXISTS ({inner})",), bounded=True)

    def select(self, core: Core, items: str, extra: tuple[str, ...] = (), bounded: bool = False) -> str:
        """The core with windows and predicates of this query's own."""
        ways = len(core.sources)
        sources = []
        for stream, alias in core.sources:
            window = self.maker.window(stream, max(ways, 2) if bounded else ways, (40, 20, 13, 5)[ways - 1])
            sources.append(f"{stream}{window.sql()} AS {alias}")
        where = [*core.joins, *extra]
        for stream, alias in core.sources:
            if self.chance(0.9 if ways == 1 else 0.25):
                prefix = "" if ways == 1 else f"{alias}."
                own = [(f"{prefix}{n}", t) for n, t in self.schema.stream(stream).columns]
                where.append(self.predicate(own, 2))
        if ways > 1 and self.chance(0.3):
            where.append(self.residual(core))
        if ways > 1 and self.schema.tables and self.chance(0.1) and not extra:
            return self.with_table(core, items, where)
        text = f"SELECT {items} FROM {', '.join(sources)}"
        return f"{text} WHERE {' AND '.join(where)}" if where else text

    def with_table(self, core: Core, items: str, where: list[str]) -> str:
        """A table joined in; over windows of time alone, which every kind of table can be joined to."""
        table = self.rng.choice(self.schema.tables)
        sources = [f"{stream} [RANGE {self.length(5)}] AS {alias}" for stream, alias in core.sources]
        where = [*where, f"u1.k = {core.sources[0][1]}.k"]
        return f"SELECT {items} FROM {', '.join(sources)}, {table.name} AS u1 WHERE {' AND '.join(where)}"

    def length(self, ticks: int) -> str:
        return f"{ticks} SECONDS" if self.schema.timestamps else str(ticks)

    # -- cores --------------------------------------------------------------------------------------------

    def stream_core(self) -> Core:
        """Most selections are over the first streams, so that many meet on one."""
        names = [s.name for s in self.schema.streams]
        name = self.rng.choices(names, [2.0**-i for i in range(len(names))])[0]
        return Core(((name, name),))

    def join_core(self) -> Core:
        ways = self.rng.choice((2, 2, 2, 3, 3, 4))
        sources = tuple((self.rng.choice(self.schema.streams).name, f"t{i}") for i in range(ways))
        joins = []
        for i in range(1, ways):
            joins += self.equalities(sources[self.rng.randrange(i)], sources[i])
        if ways > 2 and self.chance(0.4):
            joins += self.equalities(*self.rng.sample(sources, 2))  # mostly closes a cycle
        return Core(sources, tuple(dict.fromkeys(joins)))

    def fewer(self, core: Core) -> Core:
        """The core without its last source."""
        gone = f"{core.sources[-1][1]}."
        return replace(core, sources=core.sources[:-1], joins=tuple(j for j in core.joins if gone not in j))

    def equalities(self, left: tuple[str, str], right: tuple[str, str]) -> list[str]:
        (one, a), (two, b) = left, right
        here, there = dict(self.schema.stream(one).columns), dict(self.schema.stream(two).columns)
        shared = [n for n in here if n in there and n not in ("ts", "b")]
        pairs = [("k", "k")] * 12 + [(n, n) for n in shared]
        pairs += [(n, o) for n, o in (("k", "x"), ("x", "h"), ("y", "k"), ("d", "e"), ("f", "d"), ("x", "e"), ("e", "k"))
                  if n in here and o in there]  # fmt: skip
        chosen = [self.rng.choice(pairs)]
        if self.chance(0.25):
            chosen.append(self.rng.choice(pairs))
        return [f"{a}.{n} = {b}.{o}" if self.chance(0.7) else f"{b}.{o} = {a}.{n}" for n, o in chosen]

    def residual(self, core: Core) -> str:
        (one, a), (two, b) = self.rng.sample(core.sources, 2)
        pairs = [
            (n, o)
            for n, kind in self.schema.stream(one).columns
            for o, other in self.schema.stream(two).columns
            if kind == other or (kind in NUMBERS and other in NUMBERS)
        ]
        n, o = self.rng.choice(pairs)
        return f"{a}.{n} {self.rng.choice(SYMBOLS[2:])} {b}.{o}"

    # -- items --------------------------------------------------------------------------------------------

    def of_kind(self, columns: list[Column], name: str) -> str:
        return self.rng.choice([c for c, _ in columns if c.split(".")[-1] == name])

    def items(self, core: Core) -> str:
        if self.chance(0.1) and not self.own:
            return "*" if len(core.sources) == 1 else f"{self.rng.choice(core.sources)[1]}.*"
        columns = self.columns(core)
        found = [self.item(columns) for _ in range(self.rng.randint(1, 4))]
        return ", ".join(f"{item} AS {self.names}{i}" for i, item in enumerate(found))

    def item(self, columns: list[Column]) -> str:
        name, kind = self.rng.choice(columns)
        if self.chance(0.7):
            return name
        if kind in NUMBERS:
            return self.rng.choice(
                (f"{name} + 1", f"{name} * 2", f"-{name}", f"coalesce({name}, 7)", f"{name} > 1")
            )
        if kind == "STRING":
            return self.rng.choice((f"upper({name})", f"{name} || '!'", f"length({name})"))
        return f"{name} IS NULL"

    def measures(self, columns: list[Column]) -> str:
        tame = [c for c, _ in columns if c.split(".")[-1] in ("k", "x", "d")]
        some = self.rng.choice(columns)[0]
        pool = ["COUNT(*)", f"COUNT({some})", f"COUNT(DISTINCT {some})", f"SUM({self.rng.choice(tame)})",
                f"AVG({self.rng.choice(tame)})", f"MIN({some})", f"MAX({some})"]  # fmt: skip
        return ", ".join(f"{m} AS {self.names}{i}" for i, m in enumerate(self.rng.sample(pool, 2), 1))

    # -- predicates ---------------------------------------------------------------------------------------

    def constant(self, kind: str) -> str:
        return self.rng.choice(WILD[kind] if self.chance(self.wild) else self.usual[kind])

    def time(self) -> str:
        """A constant for a time column."""
        if not self.schema.timestamps:
            return str(self.rng.randint(0, 60))
        return f"TIMESTAMP '{moment(1_704_067_200_000_000 + self.rng.randint(0, 60) * 1_000_000)}'"

    def predicate(self, columns: list[Column], depth: int) -> str:
        if depth > 0 and self.chance(0.3):
            if self.chance(0.25):
                return f"NOT ({self.predicate(columns, depth - 1)})"
            word = self.rng.choice(("AND", "OR", "OR"))
            parts = [self.predicate(columns, depth - 1) for _ in range(self.rng.choice((2, 2, 3)))]
            return f"({f' {word} '.join(parts)})"
        if self.chance(0.03):
            return self.rng.choice(("TRUE", "1 = 0", "NULL", "1 < 2", "FALSE"))
        name, kind = self.rng.choice(columns)
        if self.chance(0.08):
            return f"{name} IS {self.rng.choice(('', 'NOT '))}NULL"
        if kind == "TIME":
            return f"{name} {self.rng.choice(SYMBOLS)} {self.time()}"
        if self.functions and self.chance(0.1):
            return self.called(columns)
        if self.chance(0.15):
            return self.computed(columns, name, kind)
        if kind == "BOOLEAN" and self.chance(0.4):
            return self.rng.choice((name, f"NOT {name}"))
        if kind == "STRING" and self.chance(0.35):
            pattern = self.rng.choice(LIKES).replace("'", "''")
            return f"{name} {self.rng.choice(('', '', 'NOT '))}LIKE '{pattern}'"
        return self.ranged(name, kind)

    def ranged(self, name: str, kind: str) -> str:
        """A column against constants: what a grouped filter answers."""
        shape = self.rng.choice(("compare",) * 4 + ("between", "in"))
        word = self.rng.choice(("", "", "NOT "))
        if shape == "between":
            return f"{name} {word}BETWEEN {self.constant(kind)} AND {self.constant(kind)}"
        if shape == "in":
            members = ", ".join(self.constant(kind) for _ in range(self.rng.randint(1, 4)))
            return f"{name} {word}IN ({members})"
        symbol, value = self.rng.choice(SYMBOLS), self.constant(kind)
        return f"{value} {symbol} {name}" if self.chance(0.2) else f"{name} {symbol} {value}"

    def computed(self, columns: list[Column], name: str, kind: str) -> str:
        """What only an expression of columns can say."""
        like = [c for c, t in columns if t == kind or (t in NUMBERS and kind in NUMBERS)]
        across = f"{name} {self.rng.choice(SYMBOLS)} {self.rng.choice(like)}"
        if kind == "STRING":
            pool = [
                f"upper({name}) = 'A'",
                f"length({name}) > {self.rng.randint(0, 2)}",
                f"{name} || 'b' = 'ab'",
            ]
        elif kind in ("INT", "BIGINT", "SMALLINT"):
            pool = [f"{name} % 3 = {self.rng.randint(0, 2)}", f"{name} + 1 > 3", f"abs({name}) = 1"]
        elif kind in NUMBERS:
            pool = [f"{name} * 2 > 1", f"abs({name}) < 1.5"]
        elif kind in ("TIMESTAMP", "DATE"):
            pool = [f"day({name}) = {self.rng.randint(1, 2)}", f"year({name}) > 2023"]
        else:
            pool = [f"{name} IS NOT DISTINCT FROM TRUE"]
        return self.rng.choice((across, *pool))

    def called(self, columns: list[Column]) -> str:
        """A Python function of a column."""
        whole = [c for c, kind in columns if kind in ("INT", "SMALLINT")]  # three times as much fits BIGINT
        texts = [c for c, kind in columns if kind == "STRING"]
        if texts and self.chance(0.4):
            return f"tag({self.rng.choice(texts)}) = {self.rng.choice(self.usual['STRING'])}"
        name = self.rng.choice(whole)
        return self.rng.choice((f"is_small({name})", f"NOT is_small({name})", f"odd_one({name}) > 4"))


def functions(session: Any) -> None:
    """The Python functions that queries of a crowd call."""
    session.create_function("odd_one", lambda x: None if x is None else 3 * x + 1, returns="BIGINT")
    session.create_function("is_small", lambda x: None if x is None else x < 3, returns="BOOLEAN")
    session.create_function("tag", lambda s: None if s is None else s.strip().lower(), returns="STRING")
