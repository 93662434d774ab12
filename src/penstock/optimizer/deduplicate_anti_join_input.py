"""An anti join asks whether a right row matches, not how many: equal right rows may as well be one.

    anti join A with B    =    anti join A with DISTINCT of the columns of B that its predicates read

A left row is shown exactly while no right row matches, and a value matches exactly while one of its copies does. With DISTINCT a
left row meets one partner instead of many, only the first and the last of many equal right rows reach the left side,
and of a right side that never ends only the values are held. Without it there is an operator less. Whichever costs less.
"""

from __future__ import annotations

from penstock.optimizer.place_anti_join import WORTH
from penstock.optimizer.remove_redundant_distinct import key, without_distinct
from penstock.plan.cost import estimate
from penstock.plan.expressions import Column, Expression, Literal, Named, columns, rewrite
from penstock.plan.nodes import AntiJoin, Distinct, Node, Project
from penstock.plan.statistics import Statistics
from penstock.plan.traversal import bottom_up
from penstock.plan.update_pattern import is_table
from penstock.types.data_type import Type


def ask_once(root: Node, statistics: Statistics, once: bool | None = None) -> Node:
    """DISTINCT on the right of anti joins where it pays, and nowhere else; or everywhere (`once`), or nowhere.

    >>> from penstock.sql import bind, parse
    >>> from penstock.plan.catalog import Catalog
    >>> from penstock.plan.explain import outline
    >>> catalog = Catalog()
    >>> for name in "ab":
    ...     made, = parse(f"CREATE STREAM {name} (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF 0")
    ...     catalog.streams[name] = bind(made, catalog).stream
    >>> text = "SELECT y FROM a [RANGE 9] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 900] WHERE b.y = a.x)"
    >>> plan = bind(parse(text)[0], catalog).query.root
    >>> print(outline(ask_once(plan, Statistics(distincts={("b", "y"): 5.0}))))
    project y
      anti join on (b.y = a.x)
        window [RANGE 9]
          stream a
        distinct
          project b.y AS y
            window [RANGE 900]
              stream b
    >>> ask_once(plan, Statistics(distincts={("b", "y"): 900.0})) == plan
    True
    """
    return bottom_up(root, lambda node: _asked(node, statistics, once))


def _asked(node: Node, statistics: Statistics, once: bool | None) -> Node:
    if not isinstance(node, AntiJoin) or is_table(node.right):
        return node
    plain = AntiJoin(node.left, without_distinct(node.right), node.predicates)
    ways = [plain] if key(plain.right) is not None else [plain, _distinct(plain)]
    if once is not None:
        return ways[-1] if once else plain
    best, cost = node, WORTH * estimate(node, statistics).total
    for way in ways:
        total = estimate(way, statistics).total
        if total < cost:
            best, cost = way, total
    return best


def _distinct(node: AntiJoin) -> AntiJoin:
    """Over the values of the right columns that are read; of any, if none is."""
    width = len(node.left.schema)
    read = sorted({c.index - width for p in node.predicates for c in columns(p) if c.index >= width})
    schema = node.right.schema
    outputs = tuple(Named(Column(i, schema[i].type, _shown(node, width + i)), schema[i].name) for i in read)
    right = Distinct(Project(node.right, outputs or (Named(Literal(1, Type.INT), "one"),)))

    def moved(column: Column) -> Expression:
        if column.index < width:
            return column
        return Column(width + read.index(column.index - width), column.type, column.name)

    return AntiJoin(node.left, right, tuple(rewrite(p, moved) for p in node.predicates))


def _shown(node: AntiJoin, index: int) -> str:
    return next(c.name for p in node.predicates for c in columns(p) if c.index == index)
