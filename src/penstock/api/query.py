"""A standing query as its user holds it."""

from __future__ import annotations

import dataclasses
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.api.locking import alone
from penstock.engine.output import Answer
from penstock.engine.registry import Standing
from penstock.errors import PenstockError, StateError
from penstock.optimizer import optimize
from penstock.overload.metrics import outlined
from penstock.overload.priority_executor import Ranked
from penstock.plan.cost import by_node
from penstock.plan.explain import explain
from penstock.plan.nodes import Node, Rank
from penstock.plan.nodes import Query as Bound
from penstock.plan.query_root import top
from penstock.plan.rank_levels import levels_of, promises
from penstock.plan.traversal import every
from penstock.sql import AlterQuery, altered

if TYPE_CHECKING:
    from penstock.api.session import Session


class Query:
    """A standing query: sees rows with ts > the clock at its registration, until dropped."""

    def __init__(self, session: Session, standing: Standing, bound: Bound) -> None:
        self._session = session
        self._standing = standing
        self._bound = bound

    @property
    def lock(self) -> AbstractContextManager[object]:
        """That of the session."""
        return self._session.lock

    @property
    def name(self) -> str:
        return self._standing.name

    @property
    def pattern(self) -> str:
        """MONOTONIC, WEAKEST, WEAK or STRICT."""
        return self._standing.root.judged.pattern.value

    @property
    @alone
    def matched(self) -> int:
        """How many results there have been so far: changes with '+'."""
        self._session.engine.catch_up()
        return self._standing.matched

    @property
    def sql(self) -> str:
        return self._bound.text

    def is_of(self, bound: Bound) -> bool:
        """Whether it asks what another text asks."""
        return self._bound.root == bound.root

    @property
    def lifespan(self) -> int | None:
        """LIFESPAN in microseconds (plain units if written without one); None: results never go stale."""
        return self._bound.lifespan

    @property
    def ranks(self) -> tuple[Rank, ...]:
        """RANK clauses, best first."""
        return self._bound.ranks

    @property
    def weight(self) -> float:
        """What the query counts for beside others, where steps have a budget."""
        return self._standing.weight

    def alter(self, statement: AlterQuery) -> None:
        """Take another weight, another lifespan or other ranks, as ALTER QUERY says; the query runs on undisturbed."""
        self._check_registered()
        if statement.weight is not None:
            self._weigh(statement.weight)
            return
        bound = altered(self._bound, statement)
        standing = self._standing
        if bound.root == self._bound.root:
            root_ = dataclasses.replace(standing.root, levels=levels_of(bound))
        else:
            root_ = top(optimize(bound.root), levels_of(bound))
        self._session.engine.alter(standing, root_)
        self._bound = bound

    def _weigh(self, weight: float) -> None:
        self._session.engine.weigh(self._standing, weight)

    @property
    @alone
    def load(self) -> dict[str, Any]:
        """With a budget: what waits, and by rank what was delivered (and how late), expired, shed and suppressed; else nothing."""
        self._session.engine.catch_up()
        return self._session.engine.loads().get(self.name, {})

    @alone
    def dropped(self) -> pa.Table:
        """With `connect(budget=…, keep_dropped=…)`: rows that expired or were shed since the last call, whole or joined as far as they had come."""
        self._session.engine.catch_up()
        rider = self._standing.rider
        if rider is None or rider.aside is None:
            raise StateError(
                f"nothing is kept of what query {self.name} drops",
                hint="connect(budget=…, keep_dropped=True)",
            )
        return rider.aside.given()

    @property
    @alone
    def size_bytes(self) -> int:
        """What the query's operators remember, and its unread changes."""
        self._session.engine.catch_up()
        return self._standing.pipeline.arena.size_bytes + self._answer.unread.size_bytes

    @property
    @alone
    def state_bytes(self) -> int:
        """What the query's operators remember."""
        self._session.engine.catch_up()
        return self._standing.pipeline.arena.size_bytes

    @property
    @alone
    def unread_bytes(self) -> int:
        """What changes take that `changes()` would return now."""
        self._session.engine.catch_up()
        return self._answer.unread.size_bytes

    @property
    @alone
    def answer_bytes(self) -> int:
        """What the kept answer takes."""
        self._session.engine.catch_up()
        return self._answer.size_bytes

    @property
    @alone
    def visits(self) -> int:
        """How many rows state was touched for in this process: put in, looked at, met, taken out; of the answer too."""
        self._session.engine.catch_up()
        return self._standing.pipeline.arena.visits + self._answer.visits

    @property
    @alone
    def partial_results(self) -> dict[str, int]:
        """Of the query's joins of three inputs or more, in this process: partial results made, suppressed because some input could
        not support them, and questions asked to know. Of trees also `suspended`, rows set aside, `resumed`, partial results made after all, and
        `spared`, bytes at least that suppressed ones did not take."""
        self._session.engine.catch_up()
        return self._standing.pipeline.counted()

    @alone
    def explain(self) -> str:
        """The plan, every edge with its pattern and why, what its operators remember and make, and what would announce all ends."""
        engine, standing = self._session.engine, self._standing
        engine.catch_up()
        expected = by_node(standing.root.node, engine.statistics(standing))
        # A query with a budget may ride on a core that others share: its plan is its own.
        plan = (standing.root if isinstance(standing.pipeline, Ranked) else standing.pipeline.root).node
        running = dict(zip(map(id, every(standing.root.node)), every(plan), strict=True))

        def notes(node: Node) -> list[str]:
            held = standing.pipeline.holdings(running[id(node)])
            said = [f"{what}: {rows:,}, {how}" for what, how, rows in held]
            if held:
                rows = sum(one.rows for one in held)
                said.append(f"{rows:,} rows held, {round(expected[id(node)].state):,} expected")
            counted = standing.pipeline.counted(running[id(node)])
            if any(counted.values()):
                asked, spared = counted.pop("asked", 0), counted.pop("spared", 0)
                said.append("partial results: " + ", ".join(f"{n:,} {what}" for what, n in counted.items()))
                said[-1] += f"; {asked:,} questions asked" if asked else ""
                said[-1] += f"; {spared:,} bytes spared" if spared else ""
            if node is standing.root.node:
                said = promises(self.ranks) + outlined(self.load) + said
                said = [f"{what}: {rows:,}, {how}" for what, how, rows in self._answer.holdings()] + said
            return said

        return explain(standing.root.node, notes)

    @alone
    def exception(self) -> PenstockError | None:
        """The error at which the query stopped, if it did; others go on."""
        self._session.engine.settle()
        return self._standing.failed

    @property
    @alone
    def clock(self) -> int:
        """Every row of the streams it reads with ts <= clock has been applied (microseconds for TIMESTAMP)."""
        self._check_registered()
        return self._session.engine.clock_of(self._standing)

    @alone
    def changes(self) -> pa.Table:
        """Changes since the last call: `__op`, `__ts`, `__exp`, the query's columns.

        A query that stopped at an error first hands over what it had made.
        """
        self._check_registered()
        answer = self._answer
        if not answer.has_changes:
            self._session.engine.check(self._standing)
        return answer.changes()

    @alone
    def snapshot(self, at: object = None) -> pa.Table:
        """The answer at the query's clock."""
        self._check()
        engine = self._session.engine
        if at is not None:
            when = self._session.instant(at)
            now = engine.clock_of(self._standing)
            if when < now:
                raise StateError(
                    f"the answer at {when} is gone: the clock is at {now}", hint="take snapshots at the clock"
                )
            if when > now:
                raise StateError(
                    f"the answer at {when} is not known yet: the clock is at {now}", hint="advance first"
                )
        if not self._answer.kept:
            raise StateError(
                f"query {self.name} is MONOTONIC: its results are a stream and are not kept",
                hint="read changes(), or register it with keep=True",
            )
        with engine.guard:
            table: pa.Table = engine.snapshot(self._standing)
        return table

    @alone
    def drop(self) -> None:
        """Remove the query; its state is freed."""
        self._check_registered()
        self._session.drop(self.name)

    @property
    def _answer(self) -> Answer:
        """With everything that waited to be handed over; an interruption must not leave half of it there."""
        with self._session.engine.guard:
            return self._session.engine.answer(self._standing)

    def _check_registered(self) -> None:
        self._session.engine.catch_up()
        if self._session.engine.queries.get(self.name.lower()) is not self._standing:
            raise StateError(f"query {self.name} was dropped")

    def _check(self) -> None:
        self._check_registered()
        self._session.engine.check(self._standing)

    def __repr__(self) -> str:
        return f"<penstock query {self.name}: {self.pattern}>"
