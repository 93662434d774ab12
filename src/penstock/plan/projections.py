"""Expressions seen through a projection."""

from __future__ import annotations

from penstock.plan.expressions import Column, Expression, rewrite
from penstock.plan.nodes import Node, Project


def through(expression: Expression, project: Project) -> Expression:
    """An expression over what a projection reads; a column that is only passed on keeps the name it has above."""

    def below(column: Column) -> Expression:
        found = project.outputs[column.index].expression
        return Column(found.index, found.type, column.name) if isinstance(found, Column) else found

    return rewrite(expression, below)


def is_pick(node: Node) -> bool:
    """Whether a node only picks columns."""
    return isinstance(node, Project) and all(isinstance(o.expression, Column) for o in node.outputs)
