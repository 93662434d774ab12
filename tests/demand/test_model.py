"""Rows that come, wait and are taken up again, against a naive twin: a bushy tree whose sides can both be set aside.

The twin keeps all rows and joins them anew for every row that comes. Hypothesis draws the steps, and looks for the fewest.
"""

from __future__ import annotations

from itertools import product

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import penstock
from tests.demand.hurried import change
from tests.demand.test_equal import joins
from tests.demand.test_gate import rest

NAMES = "abcd"
PAIRS = [(i, j) for i in range(4) for j in range(i + 1, 4)]
WINDOWS = (5, 9, 7, 9)
Row = tuple[int, int, dict[int, int]]
"""When it came, which it is, and its values by pair."""


class Suspended(RuleBasedStateMachine):
    """(a ⋈ b) ⋈ (c ⋈ d), everything compared with everything."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.number = 0
        self.rows: list[list[Row]] = [[] for _ in NAMES]
        self.expected: list[tuple[int, ...]] = []
        self.sessions = {}
        for demand in ("off", "doe", "jit"):
            session = penstock.connect(join="tree", tree="bushy", demand=demand, share=False, replan=False)
            for i, name in enumerate(NAMES):
                own = ", ".join(f"x{q} INT" for q, pair in enumerate(PAIRS) if i in pair)
                session.execute(
                    f"CREATE STREAM {name} (ts BIGINT, v INT, {own}) WATERMARK ts DELAY OF INTERVAL 0"
                )
            froms = ", ".join(f"{n} [RANGE {w}]" for n, w in zip(NAMES, WINDOWS, strict=True))
            where = " AND ".join(f"{NAMES[i]}.x{q} = {NAMES[j]}.x{q}" for q, (i, j) in enumerate(PAIRS))
            query = session.query(f"SELECT a.v AS a, b.v AS b, c.v AS c, d.v AS d FROM {froms} WHERE {where}")
            self.sessions[demand] = (session, query)
        self.said: dict[str, list[tuple[int, ...]]] = {demand: [] for demand in self.sessions}

    @rule(source=st.integers(0, 3), values=st.lists(st.integers(0, 1), min_size=3, max_size=3))
    def come(self, source: int, values: list[int]) -> None:
        own = dict(zip([q for q, pair in enumerate(PAIRS) if source in pair], values, strict=True))
        row = (self.now, self.number, own)
        others = [
            [row] if i == source else [r for r in self.rows[i] if r[0] + WINDOWS[i] > self.now]
            for i in range(4)
        ]
        for parts in product(*others):
            if all(parts[i][2][q] == parts[j][2][q] for q, (i, j) in enumerate(PAIRS)):
                end = min(p[0] + w for p, w in zip(parts, WINDOWS, strict=True))
                self.expected.append((self.now, end, *(p[1] for p in parts)))
        self.rows[source].append(row)
        self.number += 1
        for session, _ in self.sessions.values():
            session.push(
                NAMES[source], [{"ts": self.now, "v": row[1], **{f"x{q}": x for q, x in own.items()}}]
            )

    @rule(by=st.integers(1, 6))
    def pass_by(self, by: int) -> None:
        self.now += by
        for session, _ in self.sessions.values():
            session.advance(self.now - 1)

    @rule(events=st.sampled_from((0, 1, 4, 100)))
    def rest(self, events: int) -> None:
        """For so many rows nobody is asked: what waits by then goes on to."""
        (join,) = joins(self.sessions["jit"][0])
        rest(join, events)

    @rule()
    def change(self) -> None:
        """From the next row on partial results are kept, or no longer."""
        (join,) = joins(self.sessions["jit"][0])
        change(join)

    @rule()
    def look(self) -> None:
        """Everything so far is applied; else rows wait for each other in the session."""
        self.pass_by(1)
        for demand, (_, query) in self.sessions.items():
            self.said[demand] += [tuple(row.values())[1:] for row in query.changes().to_pylist()]
            assert sorted(self.said[demand]) == sorted(self.expected), demand

    @invariant()
    def nobody_waits_longer_than_the_windows(self) -> None:
        session, query = self.sessions["jit"]
        if all(not rows or rows[-1][0] + max(WINDOWS) < self.now for rows in self.rows):
            query.changes()
            (join,) = joins(session)
            counted = join.counted()
            assert {counted[what] for what in ("partials", "blacklist", "buffer")} == {0}


TestSuspended = Suspended.TestCase
TestSuspended.settings = settings(
    max_examples=30, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
