"""A join that was by itself goes on in the shared SteMs, because another query joins its streams.

Invariant  whatever comes next, the query says what it would have said.
The plan stays; its operators above the join keep their arrays, the join's rows move (`Confluence.adopt`).
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.operators.expressions.evaluator import Evaluator
from penstock.operators.join.fifo_join import FifoJoin
from penstock.operators.join.shared_join_output import Met
from penstock.operators.pipeline import JOIN, LEAF, Key, Pipeline
from penstock.plan.expressions import Expression
from penstock.plan.state_upkeep import Upkeep
from penstock.planner.physical import build
from penstock.sharing.join_catalog import Equality, Input
from penstock.sharing.shared_flow import Sharing
from penstock.state.arena import Arena
from penstock.state.strings import Strings


class _Rehearsal:
    """Shares nothing: to know how the arrays of a plan would be called."""

    def leaf(self, stream: str, predicate: Expression | None) -> Key:
        return LEAF, f"{stream}\n{predicate}"

    def join(self, inputs: Sequence[Input], equalities: Sequence[Equality]) -> tuple[Key, list[int]]:
        return (JOIN, "\n".join([*(one.stream for one in inputs), repr(equalities)])), [0] * len(inputs)


def adopted(
    pipeline: Pipeline,
    since: int,
    evaluator: Evaluator,
    strings: Strings,
    upkeep: Upkeep,
    sharing: Sharing,
    now: int,
    *,
    alone: bool,
) -> Pipeline:
    """A pipeline of the same plan whose joins are shared, which goes on where this one is at `now`; if it runs for one query
    `alone`, its rows may wait."""
    root = pipeline.root
    plain = build(root, evaluator, strings, since, upkeep, shares=_Rehearsal(), meets=True)
    arrays, saved = pipeline.arena.arrays, {}
    for node, names in plain.names.items():
        for before, after in zip(pipeline.names.get(node, ()), names, strict=False):
            for name in [n for n in arrays if n.startswith(f"{before}.")]:
                saved[after + name.removeprefix(before)] = arrays[name]
    joins = {
        node: operator
        for node, operators in pipeline.operators.items()
        for operator in operators
        if isinstance(operator, FifoJoin) and isinstance(plain.operators[node][0], Met)
    }
    for node in joins:
        for after in plain.names.get(node, ()):
            for name in [n for n in saved if n.startswith(f"{after}.")]:
                del saved[name]
    arena = Arena(saved, partly=True)
    made = build(root, evaluator, strings, since, upkeep, arena, shares=sharing, meets=True)
    arena.complete()
    arena.visits = pipeline.arena.visits
    made.lazy &= alone
    for node, join in joins.items():
        stage = made.places[node]
        (source,) = made.stages[stage][1]
        party = sharing.joins[made.sources[-1 - source]].party
        sharing.confluence.adopt(party, [join.kept(i) for i in range(len(party.inputs))], now)
    return made
