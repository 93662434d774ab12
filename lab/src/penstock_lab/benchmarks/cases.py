"""What is measured: a query, its data, the hand-written program for it, and how another engine says it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from penstock.plan.join_tree import Pairs
from penstock_lab.benchmarks import workload
from penstock_lab.benchmarks.workload import Workload


@dataclass(frozen=True, slots=True)
class Case:
    """One query over one workload. `{w}` in the texts stands for the window, `{last}` for one unit less."""

    name: str
    streams: str
    events: int
    sql: str
    program: Callable[[Workload], Any]
    """Makes the hand-written program of this query, ready for its first rows."""
    elsewhere: str | None = None
    """The query for DataFusion's unbounded plan; None where it refuses such a query."""
    variant: tuple[str, Callable[[Workload], Any]] | None = None
    """A second hand-written program worth knowing the pace of, and what it does differently; it decides nothing."""
    orders: tuple[tuple[str, str], ...] = ()
    """The query as others would write it: what comes first, and the text."""
    trees: tuple[tuple[str, Pairs], ...] = ()
    """Trees over its inputs that begin with an equality: its name, and the tree."""
    window: int = 10_000
    x_keys: int = 2_000
    y_keys: int = 200_000
    batch: int = 100_000

    def with_(self, **changes: Any) -> Case:
        return replace(self, **changes)

    def text(self) -> str:
        return self.sql.format(w=self.window)

    def work(self) -> Workload:
        return workload.make(
            self.streams,
            self.events,
            window=self.window,
            x_keys=self.x_keys,
            y_keys=self.y_keys,
            batch=self.batch,
        )


def window_join() -> list[Case]:
    from penstock_lab.reference.window_join import WindowJoin

    return [
        Case(
            "window-join",
            "ab",
            200_000,
            "SELECT a.x, a.y AS p, b.y AS q FROM a [RANGE {w}], b [RANGE {w}] WHERE a.x = b.x",
            WindowJoin,
            "SELECT a.x, a.y AS p, b.y AS q FROM a JOIN b"
            " ON a.x = b.x AND a.ts > b.ts - {w} AND a.ts < b.ts + {w}",
        )
    ]


def three_way() -> list[Case]:
    from penstock_lab.reference.three_way import ThreeWay
    from penstock_lab.reference.three_way_delta import ThreeWayDelta

    chosen, a, b, c = (
        "SELECT a.x, a.y, b.y AS p, c.x AS q FROM ",
        *(f"{name} [RANGE {{w}}]" for name in "abc"),
    )
    orders = {
        "unselective_join_first": f"{chosen}{b} JOIN {a} ON a.x = b.x JOIN {c} ON a.y = c.y",
        "selective_join_first": f"{chosen}{c} JOIN {a} ON a.y = c.y JOIN {b} ON a.x = b.x",
        "turned_round": f"{chosen}{c}, {b}, {a} WHERE a.y = c.y AND a.x = b.x",
    }
    return [
        Case(
            "three-way",
            "abc",
            100_000,
            "SELECT a.x, a.y, b.y AS p, c.x AS q FROM a [RANGE {w}], b [RANGE {w}], c [RANGE {w}]"
            " WHERE a.x = b.x AND a.y = c.y",
            ThreeWayDelta,
            # The selective join first: the better of its two written orders.
            "SELECT a.x, a.y, b.y AS p, c.x AS q"
            " FROM a JOIN c ON a.y = c.y AND a.ts > c.ts - {w} AND a.ts < c.ts + {w}"
            " JOIN b ON a.x = b.x AND a.ts > b.ts - {w} AND a.ts < b.ts + {w}"
            " AND c.ts > b.ts - {w} AND c.ts < b.ts + {w}",
            ("that keeps pairs", ThreeWay),
            tuple(orders.items()),
            (("unselective_join", ((0, 1), 2)), ("selective_join", ((0, 2), 1))),
        )
    ]


def distinct_except() -> list[Case]:
    from penstock_lab.reference.distinct import Distinct
    from penstock_lab.reference.except_ import Except

    return [
        Case("distinct", "a", 200_000, "SELECT DISTINCT x FROM a [RANGE {w}]", Distinct),
        Case(
            "except",
            "ab",
            200_000,
            "SELECT x FROM a [RANGE {w}] EXCEPT SELECT x FROM b [RANGE {w}]",
            Except,
        ),
    ]


def sliding_aggregate() -> list[Case]:
    from penstock_lab.reference.aggregate import SlidingAggregate

    return [
        Case(
            "sliding-aggregate",
            "a",
            200_000,
            "SELECT x, SUM(y) AS s, AVG(y) AS m FROM a [RANGE {w}] GROUP BY x",
            SlidingAggregate,
            # A row per arrival; it has no way to say that a group changed because a row left its window.
            "SELECT x, SUM(y) OVER g AS s, AVG(y) OVER g AS m FROM a"
            " WINDOW g AS (PARTITION BY x ORDER BY ts RANGE BETWEEN {last} PRECEDING AND CURRENT ROW)",
        )
    ]


BENCHES: dict[str, Callable[[], list[Case]]] = {
    "window-join": window_join,
    "three-way": three_way,
    "distinct-except": distinct_except,
    "sliding-aggregate": sliding_aggregate,
}
