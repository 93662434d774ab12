"""The catalog all language tests read from, and a drawing of plans short enough to assert on."""

from __future__ import annotations

from penstock.plan.catalog import Catalog, Function
from penstock.plan.nodes import (
    Aggregate,
    AntiJoin,
    Except,
    Filter,
    Intersect,
    Join,
    Node,
    OuterJoin,
    Project,
    Query,
    Relation,
    Scan,
    ToStream,
    Windowed,
)
from penstock.sql import CreateStream, CreateTable, Select, Statement, bind, parse
from penstock.types.data_type import Type

SCHEMA = """
CREATE STREAM a (ts BIGINT, x INT, y INT, s STRING) WATERMARK ts DELAY OF INTERVAL 0;
CREATE STREAM b (ts BIGINT, x INT, z DOUBLE) WATERMARK ts DELAY OF 5;
CREATE STREAM c (ts BIGINT, x INT) WATERMARK ts DELAY OF 0;
CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE) WATERMARK ts DELAY OF INTERVAL 5 SECONDS;
CREATE STREAM quotes (ts TIMESTAMP, symbol STRING, bid DOUBLE) WATERMARK ts DELAY OF INTERVAL 0;
CREATE TABLE r (x INT, name STRING);
CREATE RETROACTIVE TABLE l (x INT, k BIGINT);
"""


def catalog() -> Catalog:
    known = Catalog(functions={"twice": Function("twice", lambda v: v, Type.BIGINT)})
    for parsed in parse(SCHEMA):
        made = bind(parsed, known)
        if isinstance(made, CreateStream):
            known.streams[made.stream.name.lower()] = made.stream
        elif isinstance(made, CreateTable):
            known.tables[made.table.name.lower()] = made.table
    return known


CATALOG = catalog()


def bind_all(text: str) -> list[Statement]:
    return [bind(parsed, CATALOG) for parsed in parse(text)]


def query(text: str) -> Query:
    (made,) = bind_all(text)
    assert isinstance(made, Select)
    return made.query


def plan(text: str) -> str:
    return draw(query(text).root)


def draw(node: Node) -> str:
    """`Filter[x > 5](a[RANGE 10])`: one line, whatever the depth."""
    if isinstance(node, Scan):
        return node.stream.name if node.alias == node.stream.name else f"{node.stream.name}:{node.alias}"
    if isinstance(node, Relation):
        return node.table.name if node.alias == node.table.name else f"{node.table.name}:{node.alias}"
    if isinstance(node, Windowed):
        return f"{draw(node.input)}[{node.window}]"
    kind = f"{node.kind.title()}Join" if isinstance(node, OuterJoin) else type(node).__name__
    label = f"{kind}{_detail(node)}"
    return f"{label}({', '.join(draw(one) for one in node.inputs)})"


def _detail(node: Node) -> str:
    if isinstance(node, Filter):
        return f"[{node.predicate}]"
    if isinstance(node, Project):
        return f"[{'; '.join(str(one) for one in node.outputs)}]"
    if isinstance(node, Join | AntiJoin | OuterJoin):
        return f"[{'; '.join(str(one) for one in node.predicates)}]" if node.predicates else ""
    if isinstance(node, Aggregate):
        keys = ", ".join(str(one) for one in node.keys)
        return f"[{keys} | {', '.join(str(one) for one in node.aggregations)}]"
    if isinstance(node, Intersect | Except):
        return "All" if node.all else ""
    if isinstance(node, ToStream):
        return f"[{node.kind.value}]"
    return ""
