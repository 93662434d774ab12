"""Another plan takes the place of one that runs, between two instants, and nobody can tell.

Paper      Golab & Özsu 2005, §5.4.2 (which plan); Zhu, Rundensteiner & Heineman 2004 (moving state between plans).
Invariant  whatever comes next, the new pipeline says what the old one would have said.
How        Subplans that both have, and operators above that are the same, keep their arrays under new names. Where joins and
           anti joins stand in another order, the rows alive on their inputs enter the new ones; what these say is known already.
           Both remember nothing but live rows, so that is all there is to them. Anything else is not migrated.
Cost       O(rows alive on the inputs that are reordered), once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from penstock.operators.capabilities import Remembers
from penstock.operators.expressions.evaluator import Evaluator
from penstock.operators.pipeline import Pipeline
from penstock.plan.nodes import AntiJoin, Filter, Join, Node, Project
from penstock.plan.query_root import Root
from penstock.plan.required_columns import Needed, all_of, needed_below
from penstock.plan.state_upkeep import Upkeep
from penstock.plan.traversal import every, with_inputs
from penstock.planner.physical import build
from penstock.state.arena import Arena
from penstock.state.strings import Strings
from penstock.types.batch import ABSENT, Batch


class Leaf(NamedTuple):
    """An input of a join or anti join that may stand in another order."""

    parent: Node
    which: int

    @property
    def plan(self) -> Node:
        return self.parent.inputs[self.which]


@dataclass(slots=True)
class Comparison:
    """Nodes of two plans that correspond, and inputs of what stands in another order."""

    kept: list[tuple[Node, Node]] = field(default_factory=list)
    fed: list[tuple[Leaf, Leaf]] = field(default_factory=list)
    """Inputs of joins and anti joins in the old plan, and the same subplans as inputs in the new one."""
    anew: list[Node] = field(default_factory=list)
    """Nodes of the new plan whose state is made."""


def compare(old: Node, new: Node) -> Comparison | None:
    """How a plan becomes another; None if its state cannot follow.

    Both have the same columns.
    """
    found = Comparison()
    return found if _compared(old, new, found) else None


def _compared(old: Node, new: Node, found: Comparison) -> bool:
    if old == new:
        found.kept += zip(every(old), every(new), strict=True)
        return True
    if _alike(old, new):
        found.kept.append((old, new))
        return all(_compared(a, b, found) for a, b in zip(old.inputs, new.inputs, strict=True))
    if not (_is_inner(old) and _is_inner(new)):
        return False
    there = list(_leaves(old))
    for leaf in _leaves(new):
        at = next((i for i, other in enumerate(there) if other.plan == leaf.plan), None)
        if at is None:
            return False
        other = there.pop(at)
        found.fed.append((other, leaf))
        found.kept += zip(every(other.plan), every(leaf.plan), strict=True)
    found.anew += _inner(new)
    return not there


def _alike(old: Node, new: Node) -> bool:
    """The same operator over one input that rules gave another, equal form."""
    if type(old) is not type(new) or len(old.inputs) != 1:
        return False
    if any(
        [f.type for f in a.schema] != [f.type for f in b.schema]
        for a, b in zip(old.inputs, new.inputs, strict=True)
    ):
        return False
    return with_inputs(new, old.inputs) == old


def _is_inner(node: Node) -> bool:
    """Part of what may stand in another order: joins and anti joins, and what is stateless above them."""
    if isinstance(node, Filter | Project):
        return _is_inner(node.input)
    return isinstance(node, Join | AntiJoin)


def _inner(node: Node) -> Iterator[Node]:
    if _is_inner(node):
        yield node
        for below in node.inputs:
            yield from _inner(below)


def _leaves(node: Node) -> Iterator[Leaf]:
    """Every input of the joins and anti joins."""
    for which, below in enumerate(node.inputs):
        if _is_inner(below):
            yield from _leaves(below)
        else:
            yield Leaf(node, which)


def migrated(
    pipeline: Pipeline, old: Root, new: Root, evaluator: Evaluator, strings: Strings, upkeep: Upkeep, now: int
) -> Pipeline | None:
    """A pipeline of the new plan that goes on where the old one is at `now`; None if that cannot be."""
    found = compare(old.node, new.node)
    if found is None:
        return None
    fed: list[tuple[Leaf, Batch]] = []
    reads = dict(_reads(new.node, all_of(new.node)))
    for before, after in found.fed:
        batch = _alive(pipeline, before, now)
        if batch is None or any(batch.columns[i] is ABSENT for i in reads[id(after.plan)]):
            return None
        fed.append((after, batch))
    arrays = pipeline.arena.arrays
    # Built once to know how its arrays are called, and once more over those that stay.
    plain = build(new, evaluator, strings, now + 1, upkeep, may_move=True)
    entries = [plain.entry(leaf.parent, leaf.which) for leaf, _ in fed]
    if None in entries:
        return None
    saved = {}
    for was, is_ in found.kept:
        for old_name, new_name in zip(pipeline.names_of(was), plain.names_of(is_), strict=True):
            for name in [n for n in arrays if n.startswith(f"{old_name}.")]:
                saved[new_name + name.removeprefix(old_name)] = arrays[name]
    arena = Arena(saved, partly=True)
    made = build(new, evaluator, strings, now + 1, upkeep, arena, may_move=True)
    arena.complete()
    arena.visits = pipeline.arena.visits
    rows = {entry: batch for entry, (_, batch) in zip(entries, fed, strict=True) if entry is not None}
    made.feed(rows, [id(n) for n in found.anew], now)
    return made


def _alive(pipeline: Pipeline, leaf: Leaf, now: int) -> Batch | None:
    """The rows alive on an input, in the order in which they end."""
    for operator in pipeline.operators[id(leaf.parent)]:
        if isinstance(operator, Remembers):
            batch = operator.alive(leaf.which, now)
            if batch is None:
                return None
            live = batch.take(np.flatnonzero(batch.exp > now))
            return live.take(np.argsort(live.exp, kind="stable"))
    return None


def _reads(node: Node, needed: Needed) -> Iterator[tuple[int, Needed]]:
    yield id(node), needed
    for below, read in zip(node.inputs, needed_below(node, needed), strict=True):
        yield from _reads(below, read)
