"""One session that runs plans as they are given, and what each says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import penstock
from penstock.optimizer.push_down_predicates import conjunction
from penstock.plan.expressions import columns
from penstock.plan.nodes import Filter, Join, Node
from penstock.plan.query_root import top
from penstock.plan.traversal import bottom_up
from penstock.plan.update_pattern import judge_query
from penstock.sql import Select, bind, parse

Change = tuple[Any, ...]
Rows = Mapping[str, Sequence[tuple[Any, ...]]]
"""Per stream its next rows."""


class Twice:
    """Plans of one query side by side."""

    def __init__(self, ddl: str, sql: str, **options: Any) -> None:
        self.session = penstock.connect(**options)
        self.session.execute(ddl)
        (parsed,) = parse(sql)
        statement = bind(parsed, self.session.catalog)
        assert isinstance(statement, Select)
        self.written: Node = bottom_up(statement.query.root, runnable)
        self._standing: dict[str, Any] = {}
        self._said: dict[str, Counter[Change]] = {}

    def add(self, name: str, plan: Node) -> None:
        """Register a plan; its query reports the pattern of the plan as written."""
        assert judge_query(plan).pattern is judge_query(self.written).pattern
        self._standing[name] = self.session.engine.register(name, top(plan), keep=False)
        self._said[name] = Counter()

    def feed(self, rows: Rows, until: int) -> None:
        for stream, news in rows.items():
            names = [f.name for f in self.session.catalog.streams[stream].schema]
            self.session.push(stream, [dict(zip(names, row, strict=True)) for row in news])
        self.session.advance(until)

    def said(self) -> dict[str, Counter[Change]]:
        """All changes so far, as (op, ts, exp, columns …)."""
        self.session.engine.settle()
        for name, standing in self._standing.items():
            self.session.engine.check(standing)
            table = standing.answer.changes()
            self._said[name].update(zip(*(c.to_pylist() for c in table.columns), strict=True))
        return self._said


def runnable(node: Node) -> Node:
    """Joins test what concerns several inputs and no more: what concerns one is asked of the results here."""
    if not isinstance(node, Join):
        return node
    owner = [i for i, one in enumerate(node.inputs) for _ in one.schema]
    alone = [p for p in node.predicates if len({owner[c.index] for c in columns(p)}) < 2]
    if not alone:
        return node
    return Filter(Join(node.inputs, tuple(p for p in node.predicates if p not in alone)), conjunction(alone))
