"""Routing: how near policies come to the fewest visits, on the workload of Madden et al. 2002, §4.1, as ledgers alone and in an eddy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

import numpy as np
import pytest
from numpy.typing import NDArray

import penstock
from penstock.plan.policies import ROUTINGS
from penstock.sharing.eddy import Eddy
from penstock.sharing.routing_policy import EXPLORE, MEMORY, POLICIES, Ledger, Router
from penstock.types.batch import Batch, Column
from tests.sharing.predicates import predicate

SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Passing the first predicate, …; query i has the first i of them."""
OPTIMUM = 1 + sum(accumulate(SHARES[:-1], mul))
GROUP = 512


GROWING = np.tri(5, dtype=np.bool_)
"""By query and predicate: which it has."""
ALIKE = np.ones((1, 5), np.bool_)
"""One that has them all: every predicate alone drops a row."""


class Ledgers:
    """A workload without rows: a row goes on to an operator if a query that asks there is undecided or wants it, and is dropped
    when no query is left."""

    def __init__(
        self, policy: str, queries: NDArray[np.bool_], shares: Sequence[float], seed: int = 7
    ) -> None:
        self.shares, self.queries = shares, queries
        self.ledgers = [Ledger(predicates=int(queries[:, k].sum())) for k in range(5)]
        self.router = Router(policy, seed)
        self.coin = np.random.default_rng(1)
        self.routed: list[list[int]] = []

    def visits(self, groups: int) -> float:
        """A row, of so many groups."""
        total = 0
        for order in self.router.orders(self.ledgers, groups).tolist():
            self.routed.append(order)
            passes = self.coin.random((GROUP, 5)) < self.shares
            alive = np.ones((GROUP, len(self.queries)), np.bool_)
            for k in order:
                asking = self.queries[:, k]
                visited, before = alive[:, asking].any(axis=1), alive.any(axis=1)
                asked = int(alive[:, asking].sum())
                alive[:, asking] &= passes[:, [k]]
                dropped = int((before & ~alive.any(axis=1)).sum())
                sample = (int(visited.sum()), asked, asked - int(alive[:, asking].sum()))
                self.ledgers[k].note(int(visited.sum()), dropped, sample, 10 * int(visited.sum()))
                total += int(visited.sum())
            for ledger in self.ledgers:
                ledger.fade(GROUP)
        return total / (GROUP * groups)

    def learned(self) -> float:
        """The same after 400 groups, of a few at a time."""
        for _ in range(40):
            self.visits(10)
        return self.visits(480)


def test_the_optimum_is_that_of_the_paper() -> None:
    assert round(OPTIMUM, 4) == 1.1555
    for queries in (GROWING, ALIKE):
        best = Ledgers("fixed", queries, SHARES)
        best.router._fixed = np.arange(5)[None]
        assert best.visits(400) == pytest.approx(OPTIMUM, rel=0.01)


@pytest.mark.parametrize("policy", ["thompson", "tickets", "fixed"])
def test_policies_that_learn_come_near_the_fewest_visits(policy: str) -> None:
    """Only the first predicate drops rows, since the first query has no other: tickets learn where it stands, and leave the
    order of those behind it to chance, which costs about a tenth; the others see how many queries object."""
    flow = Ledgers(policy, GROWING, SHARES)
    assert flow.learned() < (1.25 if policy == "tickets" else 1.05) * OPTIMUM
    first = [order[0] for order in flow.routed[400:]]
    assert first.count(0) > 0.9 * len(first)


@pytest.mark.parametrize(("policy", "near"), [("thompson", 1.06), ("tickets", 1.25), ("fixed", 1.02)])
def test_where_every_predicate_drops_rows_the_whole_order_is_learned(policy: str, near: float) -> None:
    assert Ledgers(policy, ALIKE, SHARES).learned() < near * OPTIMUM


@pytest.mark.parametrize("queries", [GROWING, ALIKE])
def test_a_random_and_the_worst_order_are_clearly_worse(queries: NDArray[np.bool_]) -> None:
    assert Ledgers("random", queries, SHARES).learned() > 1.5 * OPTIMUM
    assert Ledgers("worst", queries, SHARES).learned() > 2 * OPTIMUM


@pytest.mark.parametrize(("policy", "near", "after"), [("thompson", 1.1, 4), ("tickets", 1.5, 8)])
def test_the_order_follows_the_data(policy: str, near: float, after: int) -> None:
    """The predicate that passed least comes to pass most, and the other way round."""
    flow = Ledgers(policy, ALIKE, SHARES[::-1])
    assert flow.learned() < near * OPTIMUM
    flow.shares = SHARES
    assert flow.visits(1) > 1.6 * OPTIMUM
    for _ in range(after * MEMORY // (10 * GROUP)):
        flow.visits(10)
    assert flow.visits(480) < near * OPTIMUM


def test_an_order_fixed_before_the_data_changed_stays() -> None:
    flow = Ledgers("fixed", ALIKE, SHARES[::-1])
    flow.learned()
    flow.shares = SHARES
    assert flow.learned() > 2 * OPTIMUM


def test_the_same_seed_routes_the_same_way() -> None:
    def routed(policy: str, seed: int) -> list[list[int]]:
        flow = Ledgers(policy, GROWING, SHARES, seed)
        for _ in range(5):
            flow.visits(20)
        return flow.routed

    for policy in POLICIES:
        assert routed(policy, 3) == routed(policy, 3)
    assert routed("random", 3) != routed("random", 4)
    assert routed("tickets", 3) != routed("tickets", 4)


def test_every_operator_is_first_now_and_then() -> None:
    """Otherwise nobody would see that one has become the best."""
    for policy in ("thompson", "tickets", "worst"):
        flow = Ledgers(policy, GROWING, SHARES)
        for _ in range(30):
            flow.visits(EXPLORE)
        assert {order[0] for order in flow.routed[EXPLORE:]} == set(range(5)), policy


def test_what_costs_more_for_a_dropped_row_comes_later() -> None:
    cheap, dear = Ledger(predicates=1), Ledger(predicates=1)
    cheap.note(10_000, 5000, (10_000, 10_000, 5000), 10_000 * 20)
    dear.note(10_000, 6000, (10_000, 10_000, 6000), 10_000 * 20_000)
    for policy in ("thompson", "tickets", "fixed"):
        first = Router(policy, 1).orders([dear, cheap], 1000)[:, 0]
        assert (first == 1).mean() > 0.95, policy


def test_tickets_count_predicates_and_never_run_out() -> None:
    few, many = Ledger(predicates=1), Ledger(predicates=4)
    assert (few.tickets, many.tickets) == (1.0, 1.0)
    for ledger in (few, many):
        ledger.note(100, 50, (0, 0, 0), 100)
    assert many.tickets == 4 * few.tickets
    few.note(MEMORY, 0, (0, 0, 0), 0)
    assert few.tickets == pytest.approx(25)
    few.fade(400 * MEMORY)
    assert few.tickets == 1.0


# ------------------------------------------------------------------ in an eddy


def drawn(n: int, seed: int) -> Batch:
    coin = np.random.default_rng(seed)
    ts: NDArray[np.int64] = np.arange(n)
    columns = [Column(coin.integers(0, 100, n).astype(np.int32)) for _ in SHARES]
    return Batch(ts, ts, (Column(ts), *columns))


def growing(policy: str) -> Eddy:
    """The paper's five queries."""
    session = penstock.connect()
    names = [f"p{k}" for k in range(5)]
    session.execute(
        f"CREATE STREAM a (ts BIGINT, {', '.join(f'{name} INT' for name in names)}) WATERMARK ts DELAY OF 0"
    )
    eddy = Eddy(session.engine.strings, {}, policy, 1)
    for k in range(5):
        text = " AND ".join(f"{names[j]} < {round(100 * SHARES[j])}" for j in range(k + 1))
        eddy.enrol(predicate(session, text))
    return eddy


def test_an_eddy_comes_as_near_and_all_policies_give_the_same_answers() -> None:
    batches = [drawn(65_536, k) for k in range(4)]
    visits, counts = {}, []
    for policy in POLICIES:
        eddy = growing(policy)
        taken = []
        for batch in batches:
            before = eddy.visits
            eddy.sort(batch, keep=False)
            taken.append((eddy.visits - before) / len(batch))
        visits[policy] = min(taken[1:])  # costs are times: who is held up meanwhile seems dear for a while
        counts.append(eddy.counts[:5].tolist())
        assert eddy.rows == sum(map(len, batches))
    assert all(count == counts[0] for count in counts)
    assert counts[0][0] / eddy.rows == pytest.approx(0.1, rel=0.05)
    assert max(visits["thompson"], visits["tickets"]) < 1.25 * OPTIMUM
    assert min(visits["random"], visits["worst"]) > 1.7 * OPTIMUM


def test_what_may_be_asked_for_is_there() -> None:
    assert sorted(ROUTINGS) == sorted(POLICIES)
