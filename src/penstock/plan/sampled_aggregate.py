"""A ranked GROUP BY whose rows may expire before they are processed: answers say which part of the population they rest on.

Paper      Works 2013 (TP-Ag), chapter 5; `plan.sample_columns` tells how the plan is made.

What is said about an answer (`__rank`, `__subsets`, …) stands behind the query's own columns: changes have it, snapshots have not.
"""

from __future__ import annotations

from penstock.plan.exchange_input import HEAD, inner_stream, leaf
from penstock.plan.expressions import Column, Expression, Named, columns, rewrite
from penstock.plan.nodes import Aggregate, Filter, Node, Project, Rank, Reliable, Scan, Windowed
from penstock.plan.policies import Policies
from penstock.plan.query_root import Root
from penstock.plan.rank_levels import Levels, rank_of
from penstock.plan.sample_columns import sampled
from penstock.plan.update_pattern import Pattern, judge_query
from penstock.types.data_type import Type
from penstock.types.schema import Field, Schema

EXPIRED = "expired rows"
"""The stream of estimates; no stream of a user's has such a name."""
MOST = 62
"""Levels that are told apart."""


def partial(node: Node, levels: Levels, time_type: Type, policies: Policies) -> Root | None:
    """The plan of a ranked GROUP BY at the root that answers from partial populations; None if it is none.

    Without a budget or a lifespan nothing expires, and DISTINCT aggregates cannot be told from a sample.
    """
    group = _group(node) if policies.budget is not None and policies.sampling else None
    if group is None or levels.lifespan is None or not levels.ranks or levels.ranks[-1].level > MOST:
        return None
    ranks = [_over(rank, levels.over, group.input.schema) for rank in levels.ranks]
    known = [rank for rank in ranks if rank is not None]
    if len(known) < len(ranks) or any(a.distinct for a in group.aggregations) or not group.aggregations:
        return None
    estimates = _estimates(group, time_type)
    error, relative = policies.sampling_error, policies.sampling_relative
    made = sampled(group, rank_of(known), known[-1].level, estimates, error=error, relative=relative)
    above = _rebuilt(node, made)
    extra = len(above.schema) - len(node.schema)
    return Root(above, len(node.schema), judge_query(above), None, (), False, extra=extra, levels=levels)


def _group(node: Node) -> Aggregate | None:
    while isinstance(node, Project | Filter):
        node = node.input
    return node if isinstance(node, Aggregate) else None


def _over(rank: Rank, over: Schema, schema: Schema) -> Rank | None:
    """Criteria over a query's FROM as criteria over what is grouped."""
    places: dict[tuple[str, str], list[int]] = {}
    for i, field in enumerate(schema):
        places.setdefault((field.qualifier, field.name), []).append(i)

    def found(column: Column) -> list[int]:
        return places.get((over[column.index].qualifier, over[column.index].name), [])

    if any(len(found(c)) != 1 for c in columns(rank.criteria)):
        return None
    return Rank(rank.level, rewrite(rank.criteria, lambda c: Column(found(c)[0], c.type, c.name)))


def _estimates(group: Aggregate, time_type: Type) -> Node:
    """What is estimated of rows that were not processed (`overload.shed_estimate`), for as long as they would have lived."""
    keys = tuple(Field(f"k{i}", key.expression.type) for i, key in enumerate(group.keys))
    guessed = (Field(name, Type.DOUBLE) for name in ("weight", "variance", "doubt"))
    schema = (*keys, Field("level", Type.INT), *guessed)
    return leaf(inner_stream(EXPIRED, schema, time_type), Pattern.WEAK, schema, range(len(schema)))


def is_estimates(node: Node) -> bool:
    """Whether rows of a node are such estimates."""
    return isinstance(node, Windowed) and isinstance(node.input, Scan) and node.input.stream.name == EXPIRED


def estimates_schema(node: Node) -> Schema:
    """The columns of the estimates that a plan reads."""
    if is_estimates(node):
        return node.schema[HEAD:]
    return next((found for below in node.inputs if (found := estimates_schema(below))), ())


def _rebuilt(node: Node, made: Reliable) -> Node:
    """The plan above the groups, with what is said about answers behind its columns."""
    if isinstance(node, Filter):
        return Filter(_rebuilt(node.input, made), node.predicate)
    if isinstance(node, Project):
        below = _rebuilt(node.input, made)
        said = range(len(node.input.schema), len(below.schema))
        names = _names(node, made)
        about = tuple(
            Named(_column(below, i), names.get(below.schema[i].name, below.schema[i].name)) for i in said
        )
        return Project(below, node.outputs + about, node.alias)
    return made


def _column(node: Node, index: int) -> Expression:
    field = node.schema[index]
    return Column(index, field.type, field.name)


def _names(project: Project, made: Reliable) -> dict[str, str]:
    """Bounds are called like the column that shows the aggregate."""
    found: dict[str, str] = {}
    for output in project.outputs:
        if isinstance(output.expression, Column):
            at = output.expression.index - made.keys
            if 0 <= at < len(made.aggregations):
                for end in ("low", "high"):
                    found.setdefault(f"{made.aggregations[at]}__{end}", f"{output.name}__{end}")
    return found
