"""Draws queries whose results stay within a few times the number of rows, whatever that number is.

Every stream has the same columns: `k` (to join by; a few rows a value), `u` (each value twice), `g` (groups), `x` and
`d` (payload). A relation is drawn for *roles*, the columns that it must give; so any two can be combined.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from ..algebra import Anti, Relation, Select, SetOp, Source, StreamSource, SubSource, Window
from ..scalar import Agg, Call, Col, Expr, Lit, Micros

Roles = tuple[str, ...]
COUNT = Agg("COUNT", None, False, "BIGINT")
NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE")


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
    aliases: int = 0
    joins: int = 0
    """Joins that may still be made."""

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def alias(self) -> str:
        self.aliases += 1
        return f"t{self.aliases}"

    def query(self) -> Relation:
        self.joins = self.rng.choice((1, 1, 2, 3))
        depth = self.rng.choice((0, 1, 1, 2, 3))
        roles = self.rng.choice(
            (("k",), ("u",), ("u",), ("k", "g"), ("u", "x"), ("g", "k"), ("k", "d"), ("g",))
        )
        return self.relation(roles, depth, root=True)

    def relation(self, roles: Roles, depth: int, root: bool = False) -> Relation:
        shapes = {"plain": 1.0, "distinct": 2.0, "group": 3.0, "anti": 1.0}
        if depth > 0 or root:
            shapes["set"] = 2.0
        if self.joins > 0:
            shapes |= {"inner": 1.5, "outer": 3.0}
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
            case "anti":
                return self.without(roles, depth)
        source = self.source(roles, depth)
        columns = self.columns(source, roles)
        return Select(
            tuple(columns[r] for r in roles),
            (source,),
            (),
            self.filters(columns, 0.4),
            distinct=shape == "distinct",
        )

    # -- sources ------------------------------------------------------------------------------------------

    def source(self, roles: Roles, depth: int) -> Source:
        if depth > 0 and self.chance(0.5):
            return SubSource(self.relation(roles, depth - 1), self.alias())
        return StreamSource(self.rng.choice(self.names), self.alias(), self.window())

    def columns(self, source: Source, roles: Roles) -> dict[str, Col]:
        if isinstance(source, SubSource):
            return {r: Col(source.alias, f"c{i}", source.query.types[i]) for i, r in enumerate(roles)}
        return {name: Col(source.alias, name, kind) for name, kind in self.kinds.items()}

    def units(self, n: int) -> int:
        return Micros(n) if self.timestamps else n

    def window(self) -> Window:
        rng = self.rng
        length = max(int(self.span * 2 ** rng.uniform(-5, 1)), 1)
        kind = rng.choices(("range", "slide", "rows", "partition", "now", "none"), (8, 2, 1.5, 1, 0.3, 0.5))[
            0
        ]
        match kind:
            case "slide":
                slide = max(int(length * rng.choice((0.01, 0.1, 0.3, 0.5, 1, 1.7))), 2)
                return Window("range", self.units(length), self.units(slide))
            case "rows":
                return Window("rows", count=max(int(self.rows ** rng.uniform(0, 1)), 1))
            case "partition":
                return Window(
                    "rows", count=rng.choice((1, 1, 2, 5)), partition=(rng.choice(("k", "u", "g")),)
                )
            case "now":
                return Window("now", self.units(1))
            case "none":
                return Window("none")
        return Window("range", self.units(length))

    def filters(self, columns: dict[str, Col], p: float) -> tuple[Expr, ...]:
        """Sometimes a predicate that leaves a good part of the rows."""
        if "x" not in columns or not self.chance(p):
            return ()
        symbol, value = self.rng.choice(((">", -90), ("<", 50), ("<>", 3), (">=", 0)))
        return (Call(symbol, (columns["x"], Lit(value, "INT")), "BOOLEAN"),)

    # -- joins --------------------------------------------------------------------------------------------

    def joined(self, roles: Roles, depth: int, shape: str, root: bool) -> Select:
        """A chain by one key."""
        key = next((r for r in roles if r in ("k", "u")), self.rng.choice(("k", "u")))
        ways = min(self.rng.choice((2, 2, 2, 3)), self.joins + 1)
        self.joins -= ways - 1
        needed = tuple(dict.fromkeys((key, *roles)))
        sources = tuple(self.source(needed, depth - 1) for _ in range(ways))
        sides = [self.columns(s, needed) for s in sources]
        kinds = ("inner",) * (ways - 1)
        if shape == "outer":
            kinds = tuple(self.rng.choice(("left", "left", "right", "full", "inner")) for _ in kinds)
        on = [
            (Call("=", (self.rng.choice(sides[:j])[key], sides[j][key]), "BOOLEAN"),) for j in range(1, ways)
        ]
        items = tuple(self.rng.choice(sides)[r] for r in roles)
        if root:
            items += (self.rng.choice(sides)[key],)
        outer = any(kind != "inner" for kind in kinds)
        where = () if outer and self.chance(0.7) else self.filters(sides[0], 0.3)
        distinct = self.chance(0.2)
        return Select(items, sources, tuple(on), where, distinct=distinct, kinds=kinds if outer else ())

    def without(self, roles: Roles, depth: int) -> Select:
        key = next((r for r in roles if r in ("k", "u")), "k")
        needed = tuple(dict.fromkeys((key, *roles)))
        left, right = self.source(needed, depth - 1), self.source((key,), depth - 1)
        one, other = self.columns(left, needed), self.columns(right, (key,))
        style = self.rng.choice(("not exists", "anti join"))
        on = (Call("=", (other[key], one[key]), "BOOLEAN"),)
        items = tuple(one[r] for r in roles)
        return Select(items, (left,), (), (), Anti(right, on, style), distinct=self.chance(0.2))

    # -- aggregates ---------------------------------------------------------------------------------------

    def grouped(self, roles: Roles, depth: int, root: bool) -> Select:
        key = self.rng.choice(("g", "g", "k", "u")) if root else ""
        overall = root and self.chance(0.1)
        needed = tuple(dict.fromkeys((*((key,) if root else roles), "x", "d")))
        join = self.joins > 0 and self.chance(0.3)
        source: Source
        if join:
            source = SubSource(
                self.joined(needed, depth, self.rng.choice(("inner", "outer")), root=False), self.alias()
            )
        else:
            source = self.source(needed, depth)
        columns = self.columns(source, needed)
        keys = () if overall else tuple(columns[r] for r in ((key,) if root else dict.fromkeys(roles)))
        items: tuple[Expr, ...] = tuple(columns[r] for r in roles) if not root else keys
        if root:
            items += tuple(self.measure(columns) for _ in range(self.rng.choice((1, 1, 2, 3))))
        having: tuple[Expr, ...] = ()
        if self.chance(0.25):
            having = (
                Call(self.rng.choice((">", "<=")), (COUNT, Lit(self.rng.choice((1, 2)), "INT")), "BOOLEAN"),
            )
        return Select(items, (source,), (), self.filters(columns, 0.2), keys=keys, having=having)

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
            Agg("STDDEV", number, False, "DOUBLE"),
            Agg("MIN", number, False, number.type),
            Agg("MAX", number, False, number.type),
        ]
        if some.type != "BOOLEAN":
            options += [Agg(f, some, False, some.type) for f in ("MIN", "MAX")]
        return self.rng.choice(options)
