"""Draws queries whose results stay within a few times the number of rows, whatever that number is.

Every stream and table has the same columns: `k` (to join by; a few rows a value), `u` (each value a few times), `g`
(groups), `x` and `d` (payload). A relation is drawn for *roles*, the columns that it must give; so any two can be combined.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from tests.oracle import features
from tests.oracle.algebra import (
    Anti,
    Query,
    Relation,
    Select,
    SetOp,
    Source,
    StreamSource,
    SubSource,
    TableSource,
    ToStream,
    Window,
    with_windows,
)
from tests.oracle.queries import Maker as SmallMaker
from tests.oracle.scalar import Agg, Call, Col, Expr, Lit, Micros
from tests.oracle.schema import Schema

Roles = tuple[str, ...]
COUNT = Agg("COUNT", None, False, "BIGINT")
SCALARS = frozenset(features.SCALARS) - {"udf"}
"""Constructs of the predicates and expressions that are drawn."""


@dataclass
class Maker:
    rng: random.Random
    names: tuple[str, ...]
    kinds: dict[str, str]
    """The type of every column."""
    rows: int
    """Rows of the largest stream."""
    span: int
    """Time from its first row to its last."""
    timestamps: bool = False
    tables: tuple[tuple[str, bool], ...] = ()
    """Names, and whether they are retroactive."""
    most_joins: int = 3
    unique: bool = False
    """No value of `u` comes twice in a stream: as many of them as there are can be joined."""
    aliases: int = 0
    joins: int = 0
    """Joins that may still be made."""
    exact: bool = False
    """Nothing is rounded: whether a row has changed is not a matter of its last digits."""
    ctes: list[tuple[Roles, SubSource]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scalars = SmallMaker(self.rng, Schema((), (), self.timestamps), SCALARS)

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def alias(self) -> str:
        self.aliases += 1
        return f"t{self.aliases}"

    def query(self) -> Query:
        self.joins = min(self.rng.choice((1, 1, 2, 3)), self.most_joins)
        self.ctes = []
        depth = self.rng.choice((0, 1, 1, 2, 3, 4))
        roles = self.rng.choice(
            (("k",), ("u",), ("u",), ("k", "g"), ("u", "x"), ("g", "k"), ("k", "d"), ("g",))
        )
        to_stream = self.chance(0.08)
        self.exact = to_stream
        made = self.relation(roles, depth, root=True)
        if to_stream:
            few = isinstance(made, Select) and made.keys == ()
            return ToStream(self.rng.choice(("istream", "dstream", *(("rstream",) * 4 if few else ()))), made)
        if isinstance(made, Select) and self.chance(0.08):
            default = Window("default", self.length())
            return with_windows(made, lambda window: default if window.kind == "none" else window)
        return made

    def relation(self, roles: Roles, depth: int, root: bool = False) -> Relation:
        shapes = {"plain": 1.0, "distinct": 2.0, "group": 3.0, "anti": 1.0}
        if depth > 0 or root:
            shapes["set"] = 2.0
        if self.joins > 0:
            shapes |= {"inner": 1.5, "outer": 3.0}
            if root:
                shapes["near"] = 0.5
            if any(not retroactive for _, retroactive in self.tables):
                shapes["lookup"] = 2.0
        shape = self.rng.choices(list(shapes), list(shapes.values()))[0]
        match shape:
            case "set":
                op = self.rng.choice(("union", "intersect", "except"))
                sides = (self.relation(roles, depth - 1), self.relation(roles, depth - 1))
                return SetOp(op, self.chance(0.5), *sides)
            case "group":
                return self.grouped(roles, depth, root)
            case "inner" | "outer":
                return self.joined(roles, depth, shape, root)
            case "near":
                return self.near(roles)
            case "lookup":
                return self.lookup(roles)
            case "anti":
                return self.without(roles, depth)
        source = self.source(roles, depth)
        columns = self.columns(source, roles)
        items: tuple[Expr, ...] = tuple(columns[r] for r in roles)
        if root and self.chance(0.15) and self.written(columns):
            kind = self.rng.choice(("INT", "DOUBLE", "STRING", "BOOLEAN"))
            items += (self.scalars.scalar(kind, self.written(columns), 2),)
        return Select(items, (source,), (), self.filters(columns, 0.4), distinct=shape == "distinct")

    # -- sources ------------------------------------------------------------------------------------------

    def source(self, roles: Roles, depth: int) -> Source:
        if depth > 0 and self.chance(0.5):
            return self.subquery(roles, depth)
        return StreamSource(self.rng.choice(self.names), self.alias(), self.window())

    def subquery(self, roles: Roles, depth: int) -> Source:
        """A query in FROM, or in WITH; that may be read again."""
        known = [source for given, source in self.ctes if given == roles]
        if known and self.chance(0.6):
            return replace(self.rng.choice(known), alias=self.alias())
        made = SubSource(self.relation(roles, depth - 1), self.alias())
        if self.chance(0.3):
            made = replace(made, name=self.alias().replace("t", "w"))
            self.ctes.append((roles, made))
        return made

    def joinable(self, roles: Roles, depth: int) -> Source:
        """A source that is not the first one of a join."""
        there = [name for name, retroactive in self.tables if retroactive]
        if there and self.chance(0.35):
            return TableSource(there[0], self.alias(), True)
        return self.source(roles, depth)

    def columns(self, source: Source, roles: Roles) -> dict[str, Col]:
        if isinstance(source, SubSource):
            return {r: Col(source.alias, f"c{i}", source.query.types[i]) for i, r in enumerate(roles)}
        return {name: Col(source.alias, name, kind) for name, kind in self.kinds.items()}

    def units(self, n: int) -> int:
        return Micros(n) if self.timestamps else n

    def length(self) -> int:
        return self.units(max(int(self.span * 2 ** self.rng.uniform(-5, 1)), 1))

    def window(self) -> Window:
        rng, length = self.rng, self.length()
        kinds = ("range", "slide", "rows", "partition", "now", "none")
        match rng.choices(kinds, (8, 2, 1.5, 1, 0.3, 0.5))[0]:
            case "slide":
                slide = max(int(length * rng.choice((0.01, 0.1, 0.3, 0.5, 1, 1.7))), 2)
                return Window("range", length, self.units(slide))
            case "rows":
                return Window("rows", count=max(int(self.rows ** rng.uniform(0, 1)), 1))
            case "partition":
                return Window(
                    "rows", count=rng.choice((1, 1, 2, 5)), partition=(rng.choice(("k", "u", "g")),)
                )
            case "now":
                return Window("now", self.units(1))
            case "none":
                return Window(rng.choice(("none", "unbounded")))
        return Window("range", length)

    # -- predicates ---------------------------------------------------------------------------------------

    def written(self, columns: dict[str, Col]) -> list[tuple[str, str, str]]:
        """The columns that expressions may use: products of others could overflow."""
        small = [c for name, c in columns.items() if name in ("x", "d") or c.type in ("STRING", "BOOLEAN")]
        return [(c.alias, c.name, c.type) for c in small] or [
            (c.alias, c.name, c.type) for c in columns.values() if c.type in ("DATE", "TIMESTAMP")
        ]

    def filters(self, columns: dict[str, Col], p: float) -> tuple[Expr, ...]:
        """Sometimes a predicate that leaves a good part of the rows, sometimes any."""
        if not self.chance(p):
            return ()
        if self.chance(0.3) and (written := self.written(columns)):
            return (self.scalars.predicate(written, 2),)
        if "x" not in columns:
            return ()
        symbol, value = self.rng.choice(((">", -90), ("<", 50), ("<>", 3), (">=", 0)))
        return (Call(symbol, (columns["x"], Lit(value, "INT")), "BOOLEAN"),)

    def theta(self, one: dict[str, Col], other: dict[str, Col], p: float) -> tuple[Expr, ...]:
        """Sometimes a comparison of two sources."""
        name = self.rng.choice("xd")
        if name not in one or name not in other or not self.chance(p):
            return ()
        return (Call(self.rng.choice(("<", "<=", ">", "<>")), (one[name], other[name]), "BOOLEAN"),)

    # -- joins --------------------------------------------------------------------------------------------

    def joined(self, roles: Roles, depth: int, shape: str, root: bool) -> Select:
        """A chain by one key."""
        key = next((r for r in roles if r in ("k", "u")), self.rng.choice(("k", "u")))
        ways = min(self.rng.choice((2, 2, 2, 3, 4)), self.joins + 1)
        many = root and self.unique and key == "u" and self.most_joins > 1 and self.chance(0.3)
        if many:  # no more rows than the first of them has
            ways, depth = self.rng.randint(4, 8), 0
        self.joins -= min(ways - 1, self.joins)
        needed = tuple(dict.fromkeys((key, *roles)))
        first = self.source(needed, depth - 1)
        sources = (first, *(self.joinable(needed, depth - 1) for _ in range(ways - 1)))
        sides = [self.columns(s, needed) for s in sources]
        kinds = ("inner",) * (ways - 1)
        if shape == "outer":
            kinds = tuple(self.rng.choice(("left", "left", "right", "full", "inner")) for _ in kinds)
        on = []
        for j in range(1, ways):
            left = self.rng.choice(sides[:j])
            on.append((Call("=", (left[key], sides[j][key]), "BOOLEAN"), *self.theta(left, sides[j], 0.12)))
        items = tuple(self.rng.choice(sides)[r] for r in roles)
        if root:
            items += (self.rng.choice(sides)[key],)
        outer = any(kind != "inner" for kind in kinds)
        where = () if outer and self.chance(0.7) else self.filters(sides[0], 0.3)
        distinct = self.chance(0.2)
        return Select(items, sources, tuple(on), where, distinct=distinct, kinds=kinds if outer else ())

    def near(self, roles: Roles) -> Select:
        """Rows as they come with the last few of another stream, without an equality."""
        self.joins -= 1
        left = StreamSource(self.rng.choice(self.names), self.alias(), Window("now", self.units(1)))
        last = Window("rows", count=self.rng.choice((1, 2, 4)))
        right = StreamSource(self.rng.choice(self.names), self.alias(), last)
        one, other = self.columns(left, roles), self.columns(right, roles)
        items = tuple(self.rng.choice((one, other))[r] for r in roles)
        return Select(items, (left, right), (self.theta(one, other, 1.0),))

    def lookup(self, roles: Roles) -> Select:
        """One or two streams joined with a table as it was when the joined row became true."""
        self.joins -= 1
        key = next((r for r in roles if r in ("k", "u")), self.rng.choice(("k", "u")))
        windows = [Window("range", self.length()) for _ in range(self.rng.choice((1, 1, 2)))]
        if len(windows) == 1 and self.chance(0.2):
            windows = [Window("none")]
        sources: list[Source] = [
            StreamSource(self.rng.choice(self.names), self.alias(), window) for window in windows
        ]
        table = next(name for name, retroactive in self.tables if not retroactive)
        sources.append(TableSource(table, self.alias(), False))
        sides = [self.columns(s, roles) for s in sources]
        on = [
            (Call("=", (self.rng.choice(sides[:j])[key], sides[j][key]), "BOOLEAN"),)
            for j in range(1, len(sides))
        ]
        on[-1] += self.theta(sides[0], sides[-1], 0.15)
        kinds = (*("inner",) * (len(sources) - 2), "left") if self.chance(0.5) else ()
        items = tuple(self.rng.choice(sides)[r] for r in roles)
        where = self.filters(sides[0], 0.3)
        return Select(items, tuple(sources), tuple(on), where, distinct=self.chance(0.2), kinds=kinds)

    def without(self, roles: Roles, depth: int) -> Select:
        key = next((r for r in roles if r in ("k", "u")), "k")
        needed = tuple(dict.fromkeys((key, *roles)))
        left, right = self.source(needed, depth - 1), self.joinable((key,), depth - 1)
        one, other = self.columns(left, needed), self.columns(right, (key,))
        style = self.rng.choice(("not exists", "anti join"))
        on = (Call("=", (other[key], one[key]), "BOOLEAN"), *self.theta(other, one, 0.1))
        items = tuple(one[r] for r in roles)
        return Select(items, (left,), (), (), Anti(right, on, style), distinct=self.chance(0.2))

    # -- aggregates ---------------------------------------------------------------------------------------

    def grouped(self, roles: Roles, depth: int, root: bool) -> Select:
        wanted = tuple(self.rng.sample("ggku", self.rng.choice((1, 1, 1, 2)))) if root else roles
        wanted = tuple(dict.fromkeys(wanted))
        overall = root and self.chance(0.12)
        needed = tuple(dict.fromkeys((*wanted, "x", "d")))
        block = Select((), (self.source(needed, depth),))
        if self.joins > 0 and self.chance(0.3):
            block = self.joined(needed, depth, self.rng.choice(("inner", "outer")), root=False)
            if self.chance(0.5):
                block = Select((), (SubSource(block, self.alias()),))
        if block.items:  # the groups of a join itself
            columns = {r: item for r, item in zip(needed, block.items, strict=True) if isinstance(item, Col)}
        else:
            columns = self.columns(block.sources[0], needed)
        keys: tuple[Expr, ...] = () if overall else tuple(columns[r] for r in wanted)
        if root and keys and self.chance(0.08):
            keys = (Call("%", (columns["x"], Lit(self.rng.choice((2, 7)), "INT")), "BIGINT"), *keys[1:])
        items: tuple[Expr, ...] = tuple(columns[r] for r in roles) if not root else keys
        if root:
            if keys and self.chance(0.1):
                items = items[1:]  # the key travels
            items += tuple(self.measure(columns) for _ in range(self.rng.choice((1, 1, 2, 3))))
        having: tuple[Expr, ...] = ()
        if self.chance(0.25):
            having = (
                Call(self.rng.choice((">", "<=")), (COUNT, Lit(self.rng.choice((1, 2)), "INT")), "BOOLEAN"),
            )
        where = block.where or self.filters(columns, 0.2)
        return replace(block, items=items, where=where, keys=keys, having=having, distinct=False)

    def measure(self, columns: dict[str, Col]) -> Expr:
        some = columns[self.rng.choice([r for r in ("k", "u", "g", "x", "d") if r in columns])]
        number = columns[self.rng.choice(("x", "d"))]
        total = "DOUBLE" if number.type == "DOUBLE" else "BIGINT"
        options = [
            COUNT,
            Agg("COUNT", some, False, "BIGINT"),
            Agg("COUNT", some, True, "BIGINT"),
            Agg("SUM", number, False, total),
            Agg("AVG", number, False, "DOUBLE"),
            Agg("MIN", number, False, number.type),
            Agg("MAX", number, False, number.type),
        ]
        if not self.exact:
            options.append(Agg("STDDEV", number, False, "DOUBLE"))
        if some.type != "BOOLEAN":
            options += [Agg(f, some, False, some.type) for f in ("MIN", "MAX")]
        return self.rng.choice(options)
