"""Constructs by name: what the generator may use, and what a case has used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.oracle.algebra import (
    Query,
    Select,
    SetOp,
    StreamSource,
    SubSource,
    TableSource,
    ToStream,
    blocks,
    expressions,
    own_sources,
    streams,
)
from tests.oracle.scalar import Agg, Call, Col, walk

SCALARS = {
    "arithmetic": ("+", "-", "*", "/", "%", "neg", "abs", "floor", "ceil"),
    "case": ("case", "switch"),
    "in": ("in", "not in"),
    "between": ("between", "not between"),
    "like": ("like", "not like"),
    "is_null": ("is null", "is not null"),
    "strings": ("upper", "lower", "trim", "length", "substring", "||"),
    "coalesce": ("coalesce", "nullif"),
    "greatest": ("greatest", "least"),
    "cast": ("to string", "to double", "to bigint"),
    "logic": ("and", "or", "not"),
    "udf": ("udf",),
}
WINDOWS = ("range", "slide", "rows", "partition", "now", "unbounded", "default_window")
OUTER = ("left_join", "right_join", "full_join")
JOINS = ("join", "join3", "join4", "join_many", "theta", "self_join", "join_on", *OUTER)
TABLES = ("nrr", "retroactive")
SETS = ("distinct", "union", "union_all", "intersect", "intersect_all", "except", "except_all")
ANTI = ("not_exists", "anti_join")
GROUPS = ("group", "having", "global", "count_distinct", "stddev", "group_expression")
STREAMS = ("istream", "dstream", "rstream")
NESTING = ("subquery", "several", "register_late", "drop", "cte", "deep")
DATA = ("late", "advance", "timestamp", "nan", "star", "types", "idle")
ALL = frozenset({*SCALARS, *WINDOWS, *JOINS, *TABLES, *SETS, *ANTI, *GROUPS, *STREAMS, *NESTING, *DATA})
RECENT = frozenset({*OUTER, "join_many", "cte", "deep", "drop", "types", "idle"})
"""Constructs that crowds, which draw queries of their own, do not use yet, and flows on Spark only in part."""
CORE = frozenset({"range", "unbounded", "arithmetic", "logic", "in", "between", "is_null", "advance", "late"})

IMPLIED = {
    "join3": {"join"}, "join4": {"join", "join3"}, "join_many": {"join", "join3", "join4"},
    "left_join": {"join", "join_on"}, "right_join": {"join", "join_on"}, "full_join": {"join", "join_on"},
    "cte": {"subquery"}, "deep": {"subquery"}, "drop": {"several"}, "theta": {"join"}, "self_join": {"join"}, "join_on": {"join"},
    "group": {"case"}, "global": {"case"}, "having": {"group"}, "count_distinct": {"group"}, "stddev": {"group"}, "group_expression": {"group"},
    "register_late": {"several"},
    "scalars": set(SCALARS), "windows": set(WINDOWS), "joins": set(JOINS), "tables": {*TABLES, "join"},
    "sets": set(SETS), "anti": set(ANTI), "groups": set(GROUPS), "streams": set(STREAMS),
    "nrr": {"join"}, "retroactive": {"join"},
}  # fmt: skip
"""What a construct needs, and names for groups of constructs."""

NESTED = ("distinct below join", "group below join", "except below join", "anti below join", "union below join",
          "rows below group", "join below group", "join below distinct", "join below except", "group below set",
          "group over group", "hidden key", "set over set", "unequal windows", "left join of lookups",
          "table below negation")  # fmt: skip


def constructs(query: Query) -> Counter[str]:
    """How often the query uses each construct."""
    return Counter(_constructs(query))


def _constructs(query: Query) -> Iterator[str]:
    named = {function: name for name, functions in SCALARS.items() for function in functions}
    for part in (p for e in expressions(query) for p in walk(e)):
        if isinstance(part, Call) and part.function in named:
            yield named[part.function]
        if isinstance(part, Agg):
            yield part.function.lower() + ("(*)" if part.argument is None else "")
            yield from ("count_distinct",) if part.distinct else ()
            yield from (f"{part.function.lower()} of {part.argument.type.lower()}",) if part.argument else ()
    for source in streams(query):
        yield from _window(source)
    if depth(query) > 2:
        yield "deep"
    for block in blocks(query):
        if isinstance(block, ToStream):
            yield block.kind
        elif isinstance(block, SetOp):
            yield f"{block.op}_all" if block.all else block.op
            yield from (
                ("set over set",) if isinstance(block.left, SetOp) or isinstance(block.right, SetOp) else ()
            )
            for side in (block.left, block.right):
                yield from ("group below set",) if isinstance(side, Select) and side.keys is not None else ()
                yield from ("join below except",) if block.op == "except" and _is_join(side) else ()
        else:
            yield from _block(block)


def depth(query: Query) -> int:
    """Queries inside queries."""
    match query:
        case ToStream():
            return depth(query.query)
        case SetOp():
            return 1 + max(depth(query.left), depth(query.right))
    inner = [depth(s.query) for s in own_sources(query) if isinstance(s, SubSource)]
    return 1 + max(inner) if inner else 0


def _window(source: StreamSource) -> Iterator[str]:
    window = source.window
    match window.kind:
        case "rows":
            yield "partition" if window.partition else "rows"
        case "none" | "unbounded":
            yield "unbounded"
        case "default":
            yield "default_window"
        case "now":
            yield "now"
        case _:
            yield "range" if window.slide == 1 else "slide"


def _is_join(query: Query) -> bool:
    return isinstance(query, Select) and len(query.sources) > 1


def _block(block: Select) -> Iterator[str]:
    used = [s for s in block.sources if isinstance(s, StreamSource)]
    if len(block.sources) > 1:
        yield "join"
        yield from (f"join{n}" for n in (3, 4) if len(block.sources) == n)
        yield from ("join_many",) if len(block.sources) > 4 else ()
        yield from (f"{kind}_join" for kind in block.kinds if kind != "inner")
        yield from ("self_join",) if len({s.stream for s in used}) < len(used) else ()
        yield from ("join_on",) if any(on is not None for on in block.on) else ()
        yield from ("theta",) if any(_is_theta(c) for c in block.conjuncts) else ()
        yield from ("unequal windows",) if len({s.window for s in used}) > 1 else ()
    for source in own_sources(block):
        if isinstance(source, TableSource):
            yield "retroactive" if source.retroactive else "nrr"
        if isinstance(source, SubSource):
            yield "subquery"
            yield from ("cte",) if source.name else ()
            yield from _below(block, source)
    yield from ("left join of lookups",) if block.keeps_lookups else ()
    if block.anti:
        yield from ("table below negation",) if isinstance(block.anti.source, TableSource) else ()
        yield block.anti.style.replace(" ", "_")
    yield from ("distinct",) if block.distinct else ()
    yield from ("join below distinct",) if block.distinct and _is_join(block) else ()
    yield from ("star",) if block.star else ()
    if block.keys is not None:
        yield "group" if block.keys else "global"
        yield from ("having",) if block.having else ()
        yield from ("group_expression",) if any(not isinstance(k, Col) for k in block.keys) else ()
        yield from ("hidden key",) if any(k not in block.items for k in block.keys) else ()
        yield from ("rows below group",) if any(s.window.kind == "rows" for s in used) else ()
        yield from ("join below group",) if _is_join(block) else ()


def _below(block: Select, source: SubSource) -> Iterator[str]:
    inner = source.query
    if len(block.sources) > 1 and isinstance(inner, SetOp):
        yield from (f"{inner.op} below join",) if inner.op in ("except", "union") else ()
    if isinstance(inner, Select):
        if len(block.sources) > 1:
            yield from ("distinct below join",) if inner.distinct else ()
            yield from ("group below join",) if inner.keys is not None else ()
            yield from ("anti below join",) if inner.anti else ()
        yield from ("group over group",) if inner.keys is not None and block.keys is not None else ()


def _is_theta(conjunct: object) -> bool:
    """A comparison of two sources that is not an equality."""
    if not isinstance(conjunct, Call) or conjunct.function not in ("<", "<=", ">", ">=", "<>", "between"):
        return False
    return len({p.alias for p in walk(conjunct) if isinstance(p, Col)}) > 1


def expand(names: str) -> frozenset[str]:
    """`join,distinct` → these and what they need."""
    wanted = {n.strip() for n in names.split(",") if n.strip()}
    unknown = wanted - ALL - set(IMPLIED) - {"all", "core"}
    if unknown:
        raise SystemExit(
            f"unknown construct {', '.join(sorted(unknown))}; there are: {', '.join(sorted(ALL | set(IMPLIED)))}"
        )
    if "all" in wanted:
        return ALL
    while needed := set().union(*(IMPLIED.get(name, set()) for name in wanted)) - wanted:
        wanted |= needed
    return frozenset(wanted & ALL)
