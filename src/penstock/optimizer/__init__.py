"""Rules: each turns a plan into an equal plan; one near the end only rejects.

Equal means: the same changes, with the same `__ts` and `__exp`, and the same pattern. Rules that choose between plans take the
cheaper one by `plan.cost`. The order, and why each stands where it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from penstock.optimizer.deduplicate_anti_join_input import ask_once
from penstock.optimizer.distinct_join_to_intersect import intersect_keys
from penstock.optimizer.flatten_joins import flatten_joins
from penstock.optimizer.inline_single_use_subplans import unshare
from penstock.optimizer.merge_projections import merge_projections
from penstock.optimizer.place_anti_join import place_negation
from penstock.optimizer.pull_up_projections import lift_projections
from penstock.optimizer.push_down_predicates import push_filters
from penstock.optimizer.reject_unsupported import reject
from penstock.optimizer.remove_redundant_distinct import drop_distinct
from penstock.optimizer.separate_occurrences import separate_occurrences
from penstock.plan.deadline import planning
from penstock.plan.nodes import AntiJoin, Join, Node, Shared
from penstock.plan.statistics import Statistics
from penstock.plan.traversal import every

Rule = Callable[[Node], Node]


def rules(statistics: Statistics, once: bool | None = None) -> tuple[Rule, ...]:
    """All rules in order; `once`: see `ask_once`."""
    return (
        # What is read once need not be a plan of its own.
        unshare,
        # Predicates early: what a filter says may make a cross product an equi-join.
        push_filters,
        # Subqueries that only pick columns stand no longer between joins and what they could meet.
        lift_projections,
        # Then nested joins become one: neither a predicate nor a projection stands between two.
        flatten_joins,
        # Conditions of the flattened join may concern one input only.
        push_filters,
        # Joins are whole and have their predicates: now it can be told what a negation saves, and where.
        partial(place_negation, statistics=statistics),
        # A join that need not be made is better than a DISTINCT that need not be; so this goes first.
        partial(intersect_keys, statistics=statistics),
        drop_distinct,
        # After negations have found their places, which the size of their right side decides.
        partial(ask_once, statistics=statistics, once=once),
        # What the rules before left above each other.
        push_filters,
        merge_projections,
        # What no exact plan exists for.
        reject,
        # Last: no rule after it may put one subplan into two places.
        separate_occurrences,
    )


def optimize(root: Node, statistics: Statistics | None = None, *, once: bool | None = None) -> Node:
    """Apply every rule in order; without statistics the usual guesses hold."""
    with planning():
        for rule in rules(statistics or Statistics(), once):
            root = rule(root)
    return root


def has_choice(root: Node) -> bool:
    """Whether other statistics may ask for another place of a negation."""
    kinds = {type(node) for node in every(root)}
    return {Join, AntiJoin} <= kinds and Shared not in kinds
