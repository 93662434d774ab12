"""Rules: each turns a plan into an equal plan; the last only rejects.

The order, and why each stands where it stands.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.plan.nodes import Node
from penstock.rules.flatten_joins import flatten_joins
from penstock.rules.push_filters import push_filters
from penstock.rules.reject import reject

Rule = Callable[[Node], Node]

RULES: tuple[Rule, ...] = (
    # Predicates first: what a filter says may make a cross product an equi-join.
    push_filters,
    # Then nested joins become one: a predicate moved into a join no longer stands between two.
    flatten_joins,
    # Conditions of the flattened join may concern one input only.
    push_filters,
    # Last: what no exact plan exists for.
    reject,
)


def optimize(root: Node) -> Node:
    """Apply every rule in order."""
    for rule in RULES:
        root = rule(root)
    return root
