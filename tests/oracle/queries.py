"""Draws queries: every construct of the SQL, nested in each other, over a given schema.

What is left out on purpose: a table looked up at the result's ts (NRR) above anything but plain windows over
time (the contract refuses most of that), and STDDEV or quotients below a comparison (rounding may differ).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

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
from tests.oracle.scalar import Agg, Call, Col, Expr, Lit, Micros
from tests.oracle.schema import STRINGS, Schema

FAMILY = {"INT": "INT", "BIGINT": "INT", "TINYINT": "INT", "SMALLINT": "INT", "FLOAT": "DOUBLE"}
MOST_STREAMS = 8
"""Uses of streams in one query from which on no more subqueries are drawn."""
INTS = (-1, 0, 1, 2, 3, 5)
PATTERNS = ("%", "a%", "%b", "_", "%a%", "", "A_", "%é", "100\\%")[:-1]


def family(kind: str) -> str:
    return FAMILY.get(kind, kind)


@dataclass
class Maker:
    rng: random.Random
    schema: Schema
    on: frozenset[str]
    names: int = 0
    root: bool = True
    used: int = 0
    """Streams read so far."""
    ctes: list[SubSource] = field(default_factory=list)

    # -- choices ------------------------------------------------------------------------------------------

    def chance(self, p: float, feature: str = "") -> bool:
        return (not feature or feature in self.on) and self.rng.random() < p

    def pick(self, weighted: dict[str, float]) -> str:
        options = {k: w for k, w in weighted.items() if w > 0}
        return self.rng.choices(list(options), list(options.values()))[0]

    def alias(self, name: str = "") -> str:
        self.names += 1
        return f"{name or 't'}{self.names}"

    # -- relations ----------------------------------------------------------------------------------------

    def query(self) -> Query:
        kinds = [k for k in ("istream", "dstream", "rstream") if k in self.on]
        to_stream = bool(kinds) and self.chance(0.15)
        self.used, self.ctes = 0, []
        self.root = not to_stream
        relation = self.relation(self.types(), self.rng.choice((2, 2, 3, 4)) if "deep" in self.on else 2)
        return ToStream(self.rng.choice(kinds), relation) if to_stream else self.defaulted(relation)

    def defaulted(self, query: Relation) -> Relation:
        """Sometimes: no stream that has no window of its own is unbounded; the trailing WINDOW clause says so."""
        if not isinstance(query, Select) or not self.chance(0.15, "default_window"):
            return query
        default = Window("default", self.ticks(20))
        if (
            query.sources[-1:]
            and isinstance(last := query.sources[-1], StreamSource)
            and last.window.slide == 1
        ):
            query = replace(query, sources=(*query.sources[:-1], replace(last, window=default)))
        return with_windows(query, lambda window: default if window.kind == "none" else window)

    def types(self) -> tuple[str, ...]:
        there = {family(kind) for stream in self.schema.streams for _, kind in stream.columns}
        pool = [
            t
            for t in ("INT", "INT", "INT", "STRING", "DOUBLE", "TIME", "BOOLEAN", "DATE", "TIMESTAMP")
            if t in there
        ]
        return tuple(self.rng.choice(pool) for _ in range(self.rng.choice((1, 1, 2, 2, 3))))

    def relation(self, types: tuple[str, ...], depth: int) -> Relation:
        on = self.on
        sets = [
            s for s in ("union", "union_all", "intersect", "intersect_all", "except", "except_all") if s in on
        ]
        shape = self.pick({
            "plain": 5,
            "distinct": 2 * ("distinct" in on),
            "group": 3 * ("group" in on),
            "global": 1.0 * ("global" in on and all(t != "BOOLEAN" for t in types)),
            "set": (3.5 if self.root else 6.0) * bool(sets and depth > 0),
            "anti": 2 * bool(on & {"not_exists", "anti_join"}),
        })  # fmt: skip
        if shape == "set":
            op = self.rng.choice(sets)
            root, self.root = self.root, False
            left, right = self.relation(types, depth - 1), self.relation(types, depth - 1)
            self.root = root
            return SetOp(op.removesuffix("_all"), op.endswith("_all"), left, right)
        return self.select(shape, types, depth)

    def select(self, shape: str, types: tuple[str, ...], depth: int) -> Select:
        root, self.root = self.root, False
        if "deep" in self.on and self.used > MOST_STREAMS:
            depth = 0
        sources = self.sources(depth, joinable=shape != "anti" or self.chance(0.2))
        self.taken = []
        anti_source = self.anti_source(depth) if shape == "anti" else None
        self.root = root
        columns = self.columns(sources)
        kinds = self.outer(sources)
        on, where = self.predicates(sources, all_on=bool(kinds))
        anti = self.anti(anti_source, columns) if anti_source else None
        if anti and anti.style == "anti join":  # a comma binds weaker than LEFT ANTI JOIN
            on = tuple(conjuncts or () for conjuncts in on)
        if self.chance(0.5 if len(sources) == 1 else 0.2):
            where += tuple(self.predicate(columns, 2) for _ in range(self.rng.choice((1, 1, 1, 2))))
        distinct = shape == "distinct" or (shape in ("anti", "group") and self.chance(0.06, "distinct"))
        if shape in ("group", "global"):
            block = Select((), sources, on, where, anti, distinct=distinct, kinds=kinds)
            return self.grouped(block, types, columns, shape == "global")
        if self.root and self.chance(0.1, "star") and not anti:
            everything = tuple(Col(*c) for c in columns)
            return Select(everything, sources, on, where, None, distinct=distinct, star=True, kinds=kinds)
        bare = len(sources) == 1 and not anti and not isinstance(sources[0], SubSource) and self.chance(0.3)
        items = tuple(self.item(t, columns, bare) for t in types)
        return Select(items, sources, on, where, anti, distinct=distinct, kinds=kinds)

    def outer(self, sources: tuple[Source, ...]) -> tuple[str, ...]:
        """Sometimes: the kinds of joins of a chain of which some are outer."""
        some = [kind for kind in ("left", "right", "full") if f"{kind}_join" in self.on]
        plain = any(isinstance(s, TableSource) and not s.retroactive for s in sources)
        if plain and "left_join" in self.on and self.chance(0.35):  # as looked up when a row comes
            return (*("inner",) * (len(sources) - 2), "left")
        if plain or not some or not 1 < len(sources) < 5 or not self.chance(0.35):
            return ()
        kinds = tuple(self.rng.choice((*some, "inner")) for _ in sources[1:])
        return kinds if any(kind != "inner" for kind in kinds) else (some[0], *kinds[1:])

    # -- sources ------------------------------------------------------------------------------------------

    def sources(self, depth: int, joinable: bool) -> tuple[Source, ...]:
        self.taken: list[str] = []
        ways = 1
        if joinable and "join" in self.on:
            many = 0.5 * ("join_many" in self.on and self.used < 2)
            shares = {"1": 5, "2": 4, "3": 1.5 * ("join3" in self.on), "4": 0.7 * ("join4" in self.on)}
            drawn = self.pick({**shares, "many": many})
            ways = self.rng.randint(5, 8) if drawn == "many" else int(drawn)
            ways = ways if "self_join" in self.on else min(ways, len(self.schema.streams))
        table = self.table() if ways > 1 else None
        if isinstance(table, TableSource) and not table.retroactive:
            return (*(self.plain_stream(ways) for _ in range(ways - 1)), table)
        longest = {1: 40, 2: 40, 3: 20, 4: 8}.get(ways, 2)
        chosen = [self.source(depth, ways, longest) for _ in range(ways - (table is not None))]
        if table is not None:
            chosen.insert(self.rng.randint(0, len(chosen)), table)
        return tuple(chosen)

    def table(self) -> TableSource | None:
        if not self.schema.tables or not self.chance(0.4):
            return None
        table = self.rng.choice(self.schema.tables)
        return TableSource(table.name, self.alias("u"), table.retroactive)

    def source(self, depth: int, ways: int, longest: int) -> Source:
        if depth > 0 and ways < 4 and self.chance(0.25, "subquery"):
            return self.subquery(depth)
        self.used += 1
        return StreamSource(stream := self.stream(), self.alias(), self.window(stream, ways, longest))

    def anti_source(self, depth: int) -> Source:
        tables = [table for table in self.schema.tables if table.retroactive]
        if tables and self.chance(0.2):
            return TableSource(tables[0].name, self.alias("u"), True)
        return self.source(depth, 1, 15)

    def subquery(self, depth: int) -> SubSource:
        """A query in FROM, or in WITH; that may be read again."""
        if self.ctes and self.chance(0.3):
            return replace(self.rng.choice(self.ctes), alias=self.alias("q"))
        taken = self.taken
        inner = self.relation(("INT", *self.types()[:2]), depth - 1)
        self.taken = taken
        if not self.chance(0.3, "cte"):
            return SubSource(inner, self.alias("q"))
        self.ctes.append(SubSource(inner, self.alias("q"), self.alias("w")))
        return self.ctes[-1]

    def stream(self) -> str:
        names = [s.name for s in self.schema.streams if "self_join" in self.on or s.name not in self.taken]
        self.taken.append(self.rng.choice(names))
        return self.taken[-1]

    def plain_stream(self, ways: int) -> Source:
        """A stream an NRR may be joined to: its rows become true at their own ts."""
        stream = self.stream()
        if self.chance(0.3, "unbounded") and ways == 2:
            return StreamSource(stream, self.alias(), Window(self.rng.choice(("none", "unbounded"))))
        return StreamSource(stream, self.alias(), Window("range", self.ticks(20 if ways < 4 else 5)))

    def ticks(self, longest: int) -> int:
        return self.schema.units(
            self.rng.choice([n for n in (1, 2, 3, 5, 8, 8, 13, 13, 20, 20, 40, 40) if n <= longest])
        )

    def window(self, stream: str, ways: int, longest: int) -> Window:
        on = self.on
        kind = self.pick({
            "range": 6,
            "slide": 1.5 * ("slide" in on),
            "rows": 1.2 * ("rows" in on),
            "partition": 0.8 * ("partition" in on),
            "now": 0.5 * ("now" in on),
            "unbounded": 1.2 * ("unbounded" in on and ways < 3),
        })  # fmt: skip
        match kind:
            case "slide":
                return Window("range", self.ticks(longest), self.schema.units(self.rng.choice((2, 3, 5, 7))))
            case "rows":
                return Window("rows", count=self.rng.choice((10, 5, 3, 2, 1)[min(ways, 5) - 1 :]))
            case "partition":
                columns = [n for n, t in self.schema.stream(stream).columns if t not in ("TIME", "DOUBLE")]
                keys = tuple(self.rng.sample(columns, self.rng.choice((1, 1, 1, min(2, len(columns))))))
                return Window("rows", count=self.rng.choice((1, 1, 2, 3)), partition=keys)
            case "now":
                return Window("now", Micros(1) if self.schema.timestamps else 1)
            case "unbounded":
                return Window(self.rng.choice(("unbounded", "none")))
        return Window("range", self.ticks(longest))

    def columns(self, sources: tuple[Source, ...]) -> list[tuple[str, str, str]]:
        """(alias, name, type) of every column of the sources."""
        found = []
        for source in sources:
            match source:
                case StreamSource(stream, alias):
                    pairs = self.schema.stream(stream).columns
                case TableSource(table, alias):
                    pairs = self.schema.table(table).columns
                case SubSource(query, alias):
                    pairs = tuple((f"c{i}", t) for i, t in enumerate(query.types))
            found += [(alias, name, kind) for name, kind in pairs]
        return found

    # -- predicates between sources -----------------------------------------------------------------------

    def predicates(
        self, sources: tuple[Source, ...], all_on: bool
    ) -> tuple[tuple[tuple[Expr, ...] | None, ...], tuple[Expr, ...]]:
        """Join conjuncts, some of them in JOIN … ON, or `all_on`."""
        on: list[tuple[Expr, ...] | None] = []
        where: list[Expr] = []
        explicit = all_on or self.chance(0.4, "join_on")
        for i, source in enumerate(sources[1:], 1):
            found = self.connect(
                self.columns(sources[:i]), self.columns((source,)), loose=len(sources) == 2 and not all_on
            )
            if explicit:
                on.append(tuple(found))
            else:
                on.append(None)
                where += found
        return tuple(on), tuple(where)

    def connect(
        self, left: list[tuple[str, str, str]], right: list[tuple[str, str, str]], loose: bool
    ) -> list[Expr]:
        pairs = [(a, b) for a in left for b in right if family(a[2]) == family(b[2])]
        keys = [p for p in pairs if family(p[0][2]) in ("INT", "STRING")] or pairs
        found: list[Expr] = []
        if keys and not (loose and self.chance(0.15)):
            same = [p for p in keys if p[0][1] == p[1][1] == "k"]
            for a, b in self.rng.sample(keys, 1) if not same or self.chance(0.1) else [self.rng.choice(same)]:
                found.append(Call("=", (Col(*a), Col(*b)), "BOOLEAN"))
            if self.chance(0.1):
                a, b = self.rng.choice(keys)
                found.append(Call("=", (Col(*b), Col(*a)), "BOOLEAN"))
        if pairs and (not found or self.chance(0.25)) and "theta" in self.on:
            a, b = self.rng.choice([p for p in pairs if p[0][2] != "BOOLEAN"] or pairs)
            symbol = self.rng.choice(("<", "<=", ">", ">=", "<>"))
            found.append(Call(symbol, (Col(*a), Col(*b)), "BOOLEAN"))
        return found

    def anti(self, source: Source, columns: list[tuple[str, str, str]]) -> Anti:
        inner = self.columns((source,))
        on = self.connect(columns, inner, loose=True)
        if not on or self.chance(0.3):
            on.append(self.predicate(inner, 1))
        if self.chance(0.15):
            on.append(self.predicate(columns + inner, 1))
        styles = [s for s in ("not exists", "anti join") if s.replace(" ", "_") in self.on]
        return Anti(source, tuple(on), self.rng.choice(styles))

    # -- aggregates ---------------------------------------------------------------------------------------

    def grouped(
        self, block: Select, types: tuple[str, ...], columns: list[tuple[str, str, str]], overall: bool
    ) -> Select:
        keys: list[Expr] = []
        if not overall:
            wanted = [c for c in columns if c[2] != "TIME" or self.chance(0.2)]
            for _ in range(self.rng.choice((1, 1, 1, 2))):
                column = self.rng.choice([c for c in wanted if c[1] == "k"] if self.chance(0.5) and any(
                    c[1] == "k" for c in wanted) else wanted or columns)  # fmt: skip
                key: Expr = Col(*column)
                if self.chance(0.15, "group_expression"):
                    key = self.scalar(self.rng.choice(("INT", "STRING")), columns, 2)
                if not isinstance(key, Lit) and key not in keys:
                    keys.append(key)
            keys = keys or [Col(*self.rng.choice(columns))]
        items = [self.measure(t, keys, columns) for t in types]
        if self.root and keys:
            shown = [k for k in keys if k not in items]
            items = (shown if self.chance(0.8) else []) + items
            if not any(isinstance(i, Agg) for i in items):
                items.append(Agg("COUNT", None, False, "BIGINT"))
        having = tuple(self.having(keys, columns) for _ in range(1)) if self.chance(0.25, "having") else ()
        return Select(
            tuple(items),
            block.sources,
            block.on,
            block.where,
            block.anti,
            tuple(keys),
            having,
            block.distinct,
            kinds=block.kinds,
        )

    def measure(self, kind: str, keys: list[Expr], columns: list[tuple[str, str, str]]) -> Expr:
        """An output column of an aggregate: a key, an aggregate, or something made of these."""
        fitting = [k for k in keys if family(k.type) == family(kind)]
        if fitting and (kind == "BOOLEAN" or self.chance(0.3)):
            return self.rng.choice(fitting)
        count = Agg("COUNT", None, False, "BIGINT")
        match kind:
            case "INT" | "BIGINT":
                return self.counting(columns)
            case "DOUBLE":
                return self.rng.choice(
                    [Agg("AVG", self.number(columns), False, "DOUBLE"), self.total(columns)]
                )
            case "DATE" | "TIMESTAMP" if any(c[2] == kind for c in columns):
                column = self.rng.choice([c for c in columns if c[2] == kind])
                return Agg(self.rng.choice(("MIN", "MAX")), Col(*column), False, kind)
            case "TIME" if any(c[2] == "TIME" for c in columns):
                column = self.rng.choice([c for c in columns if c[2] == "TIME"])
                return Agg(self.rng.choice(("MIN", "MAX")), Col(*column), False, "TIME")
            case "STRING" if any(c[2] == "STRING" for c in columns):
                column = self.rng.choice([c for c in columns if c[2] == "STRING"])
                return Agg(self.rng.choice(("MIN", "MAX")), Col(*column), False, "STRING")
        many = Call(">", (count, Lit(self.rng.choice((1, 2, 3)), "INT")), "BOOLEAN")
        if kind == "BOOLEAN":
            return many
        pair = ("many", "few") if kind == "STRING" else (self.schema.units(7), self.schema.units(9))
        if kind in ("DATE", "TIMESTAMP"):
            pair = (self.constant(kind).value, self.constant(kind).value)
        return Call("case", (many, Lit(pair[0], kind), Lit(pair[1], kind)), kind)

    def counting(self, columns: list[tuple[str, str, str]]) -> Expr:
        some = Col(*self.rng.choice(columns))
        options: list[Expr] = [Agg("COUNT", None, False, "BIGINT"), Agg("COUNT", some, False, "BIGINT")]
        number = self.number(columns)
        if family(number.type) == "INT":
            options += [
                Agg(f, number, False, "BIGINT" if f == "SUM" else number.type) for f in ("SUM", "MIN", "MAX")
            ] * 2
            options.append(Call("+", (Agg("SUM", number, False, "BIGINT"), Lit(1, "INT")), "BIGINT"))
        if "count_distinct" in self.on:
            options.append(Agg("COUNT", some, True, "BIGINT"))
        return self.rng.choice(options)

    def total(self, columns: list[tuple[str, str, str]]) -> Expr:
        number = self.number(columns)
        if self.root and self.chance(0.6, "stddev") and not self.is_nan_possible(number):
            return Agg("STDDEV", number, False, "DOUBLE")
        if number.type == "FLOAT":
            return Agg("SUM", number, False, "DOUBLE")
        if number.type == "DOUBLE":
            return Agg(self.rng.choice(("SUM", "SUM", "MIN", "MAX")), number, False, "DOUBLE")
        return Call("/", (Agg("SUM", number, False, "BIGINT"), Lit(2, "INT")), "DOUBLE")

    def is_nan_possible(self, expr: Expr) -> bool:
        return expr.type == "DOUBLE" and "nan" in self.on

    def number(self, columns: list[tuple[str, str, str]]) -> Expr:
        """An argument whose sums are exact in binary."""
        numbers = [c for c in columns if family(c[2]) in ("INT", "DOUBLE")]
        if not numbers:
            return Lit(1, "INT")
        doubles = [c for c in numbers if family(c[2]) == "DOUBLE"]
        column = Col(*self.rng.choice(doubles if doubles and self.chance(0.5) else numbers))
        if self.chance(0.2, "arithmetic"):
            kind = "DOUBLE" if family(column.type) == "DOUBLE" else "BIGINT"
            return Call(self.rng.choice(("+", "*")), (column, Lit(self.rng.choice(INTS), "INT")), kind)
        return column

    def having(self, keys: list[Expr], columns: list[tuple[str, str, str]]) -> Expr:
        number = self.number(columns)
        options: list[Expr] = [
            Call(self.rng.choice((">", ">=", "<=", "=")), (Agg("COUNT", None, False, "BIGINT"), Lit(self.rng.choice((1, 2, 3)), "INT")), "BOOLEAN"),
            Call(">", (Agg("AVG", number, False, "DOUBLE"), Lit(1.01, "DOUBLE")), "BOOLEAN"),
            Call(self.rng.choice((">", "<=")), (Agg("MAX", number, False, number.type), Lit(self.rng.choice(INTS), "INT")), "BOOLEAN"),
        ]  # fmt: skip
        if keys and isinstance(keys[0], Col):
            options.append(self.predicate([(keys[0].alias, keys[0].name, keys[0].type)], 0))
        return self.rng.choice(options)

    # -- scalars ------------------------------------------------------------------------------------------

    def item(self, kind: str, columns: list[tuple[str, str, str]], bare: bool = False) -> Expr:
        fitting = [c for c in columns if family(c[2]) == family(kind)]
        if fitting and not self.chance(0.2):
            keys = [c for c in fitting if c[1] == "k"]
            return Col(*self.rng.choice(keys if keys and self.chance(0.6) else fitting), bare)
        return self.scalar(kind, columns, 2)

    def constant(self, kind: str) -> Lit:
        match kind:
            case "STRING":
                return Lit(self.rng.choice(STRINGS), kind)
            case "DOUBLE":
                return Lit(self.rng.choice((-0.75, 0.0, 0.5, 1.25, 2.0)), kind)
            case "BOOLEAN":
                return Lit(self.rng.random() < 0.5, kind)
            case "DATE":
                return Lit(self.rng.choice(INTS), kind)
            case "TIMESTAMP":
                return Lit(Micros(self.rng.choice(INTS) * 1_500_000), kind)
        return Lit(self.rng.choice(INTS), "INT")

    def low(self, kind: str) -> Lit:
        return (
            Lit({"STRING": "", "DOUBLE": -0.75, "TIMESTAMP": Micros(-1_500_000)}.get(kind, -1), kind)
            if self.chance(0.7)
            else self.constant(kind)
        )

    def scalar(self, kind: str, columns: list[tuple[str, str, str]], depth: int) -> Expr:
        """An expression of this type (INT may come as BIGINT)."""
        fitting = [Col(*c) for c in columns if family(c[2]) == family(kind)]
        if kind == "TIME":
            if not fitting:
                return Lit(self.schema.units(7), kind)
            step = Lit(
                self.schema.units(self.rng.choice((1, 3))), "INTERVAL" if self.schema.timestamps else "INT"
            )
            return (
                Call("+", (self.rng.choice(fitting), step), kind)
                if self.chance(0.3, "arithmetic")
                else self.rng.choice(fitting)
            )
        if kind in ("DATE", "TIMESTAMP"):
            return self.rng.choice(fitting) if fitting and self.chance(0.9) else self.constant(kind)
        if kind == "BOOLEAN":
            return (
                self.rng.choice(fitting)
                if fitting and self.chance(0.6)
                else self.predicate(columns, depth - 1)
            )
        if depth <= 0 or (fitting and self.chance(0.5)):
            return self.rng.choice(fitting) if fitting and self.chance(0.9) else self.constant(kind)
        options = [o for o in (self.numeric, self.textual, self.chosen) if o(kind, columns, depth, dry=True)]
        return (
            self.rng.choice(options)(kind, columns, depth) or self.constant(kind)
            if options
            else self.constant(kind)
        )

    def numeric(
        self, kind: str, columns: list[tuple[str, str, str]], depth: int, dry: bool = False
    ) -> Expr | None:
        if kind == "STRING" or not self.on & {"arithmetic", "cast", "udf"}:
            return None
        if dry:
            return Lit(0, "INT")
        integer = self.scalar("INT", columns, depth - 1)
        other = self.scalar(kind, columns, depth - 1)
        options: list[Expr] = []
        if "arithmetic" in self.on:
            result = "BIGINT" if kind == "INT" else "DOUBLE"
            options += [Call(f, (other, integer), result) for f in ("+", "-", "*")]
            options += [Call("neg", (other,), other.type), Call("abs", (other,), other.type)]
            if kind == "DOUBLE":
                if "nan" not in self.on:
                    options.append(Call(self.rng.choice(("floor", "ceil")), (other,), "DOUBLE"))
                options += [Call("/", (integer, Lit(self.rng.choice((2, 4, 0)), "INT")), "DOUBLE"),
                            Call("/", (other, self.scalar("INT", columns, 0)), "DOUBLE")]  # fmt: skip
            else:
                options.append(Call("%", (integer, Lit(self.rng.choice((2, 3, 0)), "INT")), "BIGINT"))
                times = [Col(*c) for c in columns if c[2] == "TIME"]
                if times and not self.schema.timestamps:
                    options.append(
                        Call("%", (self.rng.choice(times), Lit(self.rng.choice((2, 3, 5)), "INT")), "BIGINT")
                    )
        if "cast" in self.on:
            options.append(
                Call(
                    "to double" if kind == "DOUBLE" else "to bigint",
                    (integer,),
                    "DOUBLE" if kind == "DOUBLE" else "BIGINT",
                )
            )
        if "udf" in self.on and kind != "DOUBLE":
            options.append(Call("udf", (integer,), "BIGINT"))
        return self.rng.choice(options)

    def textual(
        self, kind: str, columns: list[tuple[str, str, str]], depth: int, dry: bool = False
    ) -> Expr | None:
        if kind == "DOUBLE" or "strings" not in self.on:
            return None
        if dry:
            return Lit("", "STRING")
        text = self.scalar("STRING", columns, depth - 1)
        if kind == "INT":
            return Call("length", (text,), "INT")
        options = [Call(f, (text,), "STRING") for f in ("upper", "lower", "trim")]
        options.append(Call("||", (text, self.scalar("STRING", columns, depth - 1)), "STRING"))
        options.append(
            Call("substring", (text, Lit(self.rng.choice((1, 2)), "INT"), Lit(1, "INT")), "STRING")
        )
        if "cast" in self.on:
            options.append(Call("to string", (self.scalar("INT", columns, depth - 1),), "STRING"))
        return self.rng.choice(options)

    def chosen(
        self, kind: str, columns: list[tuple[str, str, str]], depth: int, dry: bool = False
    ) -> Expr | None:
        if not self.on & {"case", "coalesce", "greatest"}:
            return None
        if dry:
            return Lit(0, "INT")
        a, b = self.scalar(kind, columns, depth - 1), self.scalar(kind, columns, depth - 1)
        result = "BIGINT" if family(kind) == "INT" else kind
        options: list[Expr] = []
        if "case" in self.on:
            test = self.predicate(columns, depth - 1)
            options += [Call("case", (test, a, b), result), Call("case", (test, a), result)]
            switch = self.scalar("INT", columns, 0)
            options.append(Call("switch", (switch, Lit(1, "INT"), a, Lit(2, "INT"), b), result))
        if "coalesce" in self.on:
            options += [Call("coalesce", (a, b), result), Call("nullif", (a, self.constant(kind)), a.type)]
        if "greatest" in self.on and kind != "STRING":
            options.append(Call(self.rng.choice(("greatest", "least")), (a, b), result))
        return self.rng.choice(options)

    def predicate(self, columns: list[tuple[str, str, str]], depth: int) -> Expr:
        on = self.on
        shape = self.pick({
            "compare": 5,
            "between": 1.0 * ("between" in on),
            "in": 1.0 * ("in" in on),
            "like": 1.0 * ("like" in on and any(c[2] == "STRING" for c in columns)),
            "null": 0.8 * ("is_null" in on),
            "flag": 0.5 * any(c[2] == "BOOLEAN" for c in columns),
            "not": 0.7 * ("logic" in on and depth > 0),
            "both": 1.0 * ("logic" in on and depth > 0),
        })  # fmt: skip
        kinds = [family(c[2]) for c in columns if c[2] not in ("BOOLEAN", "TIME")] or ["INT"]
        kind = self.rng.choice(kinds)
        x = self.scalar(kind, columns, depth)
        match shape:
            case "between":
                ends = (self.low(kind), self.scalar(kind, columns, 0))
                return Call(self.rng.choice(("between", "between", "not between")), (x, *ends), "BOOLEAN")
            case "in":
                members = tuple(self.constant(kind) for _ in range(self.rng.randint(1, 3)))
                members += (Lit(None, kind),) if self.chance(0.1) else ()
                return Call(self.rng.choice(("in", "in", "not in")), (x, *members), "BOOLEAN")
            case "like":
                text = self.scalar("STRING", columns, depth)
                pattern = Lit(self.rng.choice(PATTERNS), "STRING")
                return Call(self.rng.choice(("like", "like", "not like")), (text, pattern), "BOOLEAN")
            case "null":
                return Call(
                    self.rng.choice(("is null", "is not null")), (Col(*self.rng.choice(columns)),), "BOOLEAN"
                )
            case "flag":
                return Col(*self.rng.choice([c for c in columns if c[2] == "BOOLEAN"]))
            case "not":
                return Call("not", (self.predicate(columns, depth - 1),), "BOOLEAN")
            case "both":
                sides = (self.predicate(columns, depth - 1), self.predicate(columns, depth - 1))
                return Call(self.rng.choice(("and", "or")), sides, "BOOLEAN")
        symbol = self.rng.choice(("=", "<>", "<>", "<", "<=", "<=", ">", ">=", ">="))
        other = self.constant(kind) if self.chance(0.7) else self.scalar(kind, columns, 0)
        return Call(symbol, (x, other), "BOOLEAN")
