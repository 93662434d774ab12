"""An engine that leaves as a file and comes back goes on as if nothing had been."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.api.query import Query
from penstock.api.session import Session
from penstock.durability.snapshot import dump, read, restore, write
from penstock.optimizer import optimize
from penstock.plan.nodes import Query as Bound
from penstock.plan.query_root import top
from penstock.plan.rank_levels import levels_of
from penstock.sql import bind, parse
from tests.equivalence.compare import difference
from tests.equivalence.executions import drawn
from tests.oracle import case as cases
from tests.oracle.case import Case
from tests.oracle.check import Mismatch, same
from tests.oracle.model import World
from tests.oracle.streams import Drop, Update, cut
from tests.oracle.trace import Cut, Heard, Trace, feed, leave, listen, sample_steps

CASES = int(os.environ.get("PENSTOCK_CASES", "600")) // 3
BLOCK = 20


class Restarts:
    """Takes a session out through a file and in again, in one that has been told the same anew."""

    def __init__(self, declare: Callable[[], Session], path: Path) -> None:
        self._declare = declare
        self._path = path
        self._bound: dict[str, Bound] = {}

    def __call__(self, was: Session) -> Session:
        write(dump(was.engine), self._path)
        now = self._declare()
        for name, query in was.queries.items():
            if name not in self._bound:
                self._bound[name] = bind(parse(query.sql)[0], now.catalog).query
        queries = [
            (
                query.name,
                top(optimize(self._bound[name].root), levels_of(self._bound[name])),
                query._standing.answer.kept,
            )
            for name, query in was.queries.items()
        ]
        now.engine = restore(now.catalog, queries, read(self._path))
        for name, standing in now.engine.queries.items():
            now._queries[name] = Query(now, standing, self._bound[name])
        return now


def declared(case: Case, options: dict[str, Any]) -> Session:
    session = penstock.connect(**options)
    session.execute(case.schema.ddl())
    for table in case.schema.tables:
        data = case.schema.arrow(table.columns, list(table.rows))
        session.create_table(table.name, data, retroactive=table.retroactive)
    session.create_function("odd_one", lambda x: None if x is None else 3 * x + 1, returns="BIGINT")
    return session


def record(case: Case, path: Path | None, options: dict[str, Any]) -> tuple[Trace, dict[str, Any]]:
    """Runs the case, with restarts before some of its events if there is a path, and the rows that came too late.

    Whoever asks for changes asks at the same events either way.
    """
    rng = random.Random(f"restart {case.seed}")
    plan = list(cut(case.events, Cut("random", case.seed).rng()))
    asked = sample_steps(len(plan), 10, case.seed)
    # Event 0 registers the first query: a restart before event 1 is one before the first row.
    at = {rng.randrange(2), *rng.sample(range(len(plan)), min(len(plan), rng.choice((1, 3, 6, 9))))}
    session, restart = declared(case, options), Restarts(lambda: declared(case, options), path or Path())
    world = World(case.schema)
    trace = Trace([Heard() for _ in case.queries])
    registered: dict[int, Any] = {}
    for number, event in enumerate(plan):
        if path is not None and number in at:
            session = restart(session)
            registered = {index: session.queries[f"q{index}"] for index in registered}
        for part in event if isinstance(event, list) else [event]:
            if not isinstance(part, Update):
                world.apply(part, case.queries)
        feed(session, case, event, registered, world)
        if isinstance(event, Drop):
            leave(trace.queries[event.query], registered, case, event.query, world.clock)
        if isinstance(event, Update):
            world.apply(event, case.queries)
        if number in asked or number == len(plan) - 1:
            for index, query in registered.items():
                listen(trace.queries[index], query, case, index, world.clock, case.schema)
    trace.clock = session.clock
    return trace, {s.name: session.late(s.name).to_pylist() for s in case.schema.streams}


@pytest.mark.parametrize("first", range(80_000, 80_000 + CASES, BLOCK))
def test_a_restart_changes_nothing(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + BLOCK):
        same_after_restarts(cases.make(seed), tmp_path / "state", drawn(seed))


def same_after_restarts(case: Case, path: Path, options: dict[str, Any]) -> None:
    straight, late = record(case, None, options)
    again, late_again = record(case, path, options)
    assert str(late) == str(late_again)
    assert straight.clock == again.clock
    told = difference(case, straight, again)
    for index, query in enumerate(case.queries):
        one, other = straight.queries[index], again.queries[index]
        assert one.calls == other.calls
        for clock, rows in one.snapshots.items():
            if not told and not same(rows, other.snapshots[clock], query.types):
                told = (
                    f"query {index}, snapshot at {clock}:\n  one   {rows}\n  other {other.snapshots[clock]}"
                )
    if told:
        pytest.fail(str(Mismatch(f"a restart differs from going on\n{told}", case)), pytrace=False)


STREAM = "CREATE STREAM a (ts BIGINT, s STRING, x INT, d DOUBLE) WATERMARK ts DELAY OF 2"
GROWING = [
    "SELECT l.s, r.x FROM a [RANGE 2] AS l, a [RANGE 3] AS r WHERE l.s = r.s AND l.x = r.x",
    "SELECT l.s FROM a [ROWS 700] AS l, a [RANGE 3] AS r WHERE l.s = r.s",
    "SELECT s, COUNT(*) AS n, MAX(s) AS m, SUM(d) AS d, COUNT(DISTINCT x) AS u FROM a [RANGE 2] GROUP BY s",
    "SELECT x, COUNT(s) AS n, SUM(x) AS t FROM a [RANGE 3] GROUP BY x",
    "SELECT s FROM a [ROWS 900] EXCEPT ALL SELECT s FROM a [RANGE 1]",
    "SELECT DISTINCT s FROM a [RANGE 6 SLIDE 3] WHERE s <> '3 7'",
    "SELECT l.s FROM a [RANGE 2] AS l LEFT ANTI JOIN a [ROWS 500] AS r ON l.s = r.s AND l.x = r.x",
]


def growing() -> Session:
    session = penstock.connect()
    session.execute(STREAM)
    return session


def pushed(session: Session, at: int) -> dict[str, list[Any]]:
    """A thousand new strings; changes and answers, each in an order of its own."""
    rows = 1200
    texts = [None if k % 97 == 0 else f"{at - k % 2} {k}" for k in range(rows)]
    numbers = [None if at > 12 and k % 5 == 0 else k % 50 for k in range(rows)]
    doubles = [(-1.0) ** k * 10.0 ** (k % 17) for k in range(rows)]
    times = [at + k * 4 // rows for k in range(rows)]
    session.push("a", {"ts": times, "s": texts, "x": numbers, "d": doubles})
    said = {}
    for name, query in session.queries.items():
        said[name] = sorted(map(repr, query.changes().to_pylist()))
        said[f"{name}="] = sorted(map(repr, query.snapshot().to_pylist()))
    return said


def test_what_has_grown_and_was_swept_comes_back(tmp_path: Path) -> None:
    """Thousands of strings and groups: tables have grown, the pool is swept before, between and after."""
    straight, again = growing(), growing()
    restart = Restarts(growing, tmp_path / "state")
    for session in (straight, again):
        for sql in GROWING:
            session.query(sql)
    epochs = set()
    for at in range(0, 40, 4):
        assert pushed(straight, at) == pushed(again, at)
        again = restart(again)
        assert 0.7 < again.size_bytes / straight.size_bytes < 1.3, "shared state is laid out anew"
        epochs.add(straight.engine.strings.epoch)
    assert len(epochs) > 1, "the pool was swept on the way"


OTHER = """
import sys
from penstock.sql import bind, parse
from penstock.plan.rank_levels import levels_of
from penstock.plan.query_root import top
from penstock.optimizer import optimize
from penstock.durability.snapshot import read, restore
from penstock.api.query import Query
from tests.equivalence.test_restarts import GROWING, growing, pushed

session = growing()
bound = [bind(parse(sql)[0], session.catalog).query for sql in GROWING]
queries = [(f"q{k}", top(optimize(b.root)), False) for k, b in enumerate(bound, 1)]
session.engine = restore(session.catalog, queries, read(sys.argv[1]))
for b, (name, standing) in zip(bound, session.engine.queries.items()):
    session._queries[name] = Query(session, standing, b)
sys.stdout.write(repr(pushed(session, 4)))
"""


def test_another_process_goes_on(tmp_path: Path) -> None:
    """Nothing of a snapshot hangs on a process: not its hashes, not its addresses."""
    straight = growing()
    for sql in GROWING:
        straight.query(sql)
    pushed(straight, 0)
    write(dump(straight.engine), tmp_path / "state")
    program = tmp_path / "other.py"
    program.write_text(OTHER)
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, program, tmp_path / "state"],
        cwd=root, env={**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == repr(pushed(straight, 4))
