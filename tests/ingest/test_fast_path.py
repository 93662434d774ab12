"""Small pushes of Arrow rows wait unread: nobody can tell, except by the time they take."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.errors import DataError
from penstock.ingest import fast_path
from penstock.types.sizes import DEFAULT

FEW = DEFAULT.undecoded_rows

SCHEMA = pa.schema([("ts", pa.int64()), ("x", pa.int32()), ("d", pa.float64())])
QUERIES = ("SELECT x, d FROM a [RANGE 5]", "SELECT x, COUNT(*) AS n, SUM(d) AS s FROM a [RANGE 7] GROUP BY x")


def opened(delay: int = 0) -> tuple[penstock.Session, list[penstock.Query]]:
    session = penstock.connect()
    session.execute(f"CREATE STREAM a (ts BIGINT, x INT, d DOUBLE) WATERMARK ts DELAY OF INTERVAL {delay};")
    return session, [session.query(text) for text in QUERIES]


def rows(ts: list[int], seed: int = 0, *, nulls: bool = False) -> pa.RecordBatch:
    random = np.random.default_rng([seed, len(ts)])
    x = pa.array(random.integers(0, 3, len(ts), dtype=np.int32))
    holes = random.random(len(ts)) < (0.3 if nulls else 0)
    d = pa.array(random.integers(0, 9, len(ts)).astype(np.float64), mask=holes)
    return pa.RecordBatch.from_arrays([pa.array(ts, pa.int64()), x, d], schema=SCHEMA)


def waiting_unread(session: penstock.Session) -> list[str]:
    return [type(part).__name__ for part in session.engine.sources["a"]._waiting]


@pytest.fixture(autouse=True)
def tries(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Rows are laid down unread whenever that is possible, also after some that were not in order."""
    if "rests" not in request.node.name:
        monkeypatch.setattr(fast_path, "RESTS", 0)


@pytest.mark.parametrize("delay", [0, 4])
@pytest.mark.parametrize("seed", range(12))
def test_as_if_read_at_once(delay: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    (one, answers), (two, twins) = opened(delay), opened(delay)
    clock, laid = 0, 0
    for push in range(30):
        step = 1 if push % 3 else -2  # now and then out of order, and with no delay late
        ts = [clock + step * int(k) for k in random.integers(0, 3, random.integers(1, 6)).cumsum()]
        batch = rows(ts, push, nulls=push % 4 == 0)
        one.push("a", batch if push % 2 else pa.table(batch))
        two.push("a", {name: batch.column(name).to_pylist() for name in SCHEMA.names})
        laid += "Unread" in waiting_unread(one)
        clock = max(clock, *ts)
        if random.random() < 0.2:
            assert [q.changes() for q in answers] == [q.changes() for q in twins]
    one.advance(clock + 9)
    two.advance(clock + 9)
    assert [q.changes() for q in answers] == [q.changes() for q in twins]
    assert one.late("a") == two.late("a")
    assert laid > 5


def test_the_caller_may_write_to_what_it_gave() -> None:
    session, (query, _) = opened()
    memory = np.array([1, 2, 3])
    given = [pa.array(memory), pa.array([1, 2, 3], pa.int32()), pa.array([0.5, 0.5, 0.5])]
    session.push("a", pa.RecordBatch.from_arrays(given, schema=SCHEMA))
    assert waiting_unread(session) == ["Unread"]
    memory[:] = 0
    session.advance(9)
    assert query.changes().column("__ts").to_pylist() == [1, 2, 3]


def test_rows_before_and_behind_the_clock() -> None:
    """A clock in the middle of what waits cuts it, and the rest goes on waiting unread."""
    session = penstock.connect()
    for name in "ab":
        session.execute(
            f"CREATE STREAM {name} (ts BIGINT, x INT, d DOUBLE) WATERMARK ts DELAY OF INTERVAL 0;"
        )
    query = session.query("SELECT a.ts FROM a [RANGE 2], b [RANGE 2] WHERE a.ts = b.ts")
    batch = rows(list(range(100)))
    session.push("a", batch)
    session.push("b", batch.slice(0, 40))
    assert query.changes().column("ts").to_pylist() == list(range(39))
    assert waiting_unread(session) == ["Unread"]
    session.push("b", rows(list(range(40, 100))))
    session.advance(99)
    assert query.changes().column("ts").to_pylist() == list(range(39, 100))


def test_timestamps() -> None:
    session = penstock.connect()
    session.execute("CREATE STREAM a (ts TIMESTAMP, x INT) WATERMARK ts DELAY OF INTERVAL 0 SECONDS;")
    query = session.query("SELECT x FROM a [RANGE 1 SECOND]")
    ts = pa.array([0, 1_000_000], pa.timestamp("us"))
    session.push("a", pa.record_batch({"ts": ts, "x": pa.array([1, None], pa.int32())}))
    assert waiting_unread(session) == ["Unread"]
    session.advance("1970-01-01 00:00:03")
    assert query.changes().column("x").to_pylist() == [1, None]
    beyond = pa.array([2**60], pa.timestamp("us"))
    with pytest.raises(DataError, match="row 0, column ts"):
        session.push("a", pa.record_batch({"ts": beyond, "x": pa.array([1], pa.int32())}))


@pytest.mark.parametrize(("ts", "message"), [([1, None], "NULL"), ([1, 2**61], "out of range")])
def test_what_is_wrong_with_a_time_is_said_at_once(ts: list[int], message: str) -> None:
    session, _ = opened()
    with pytest.raises(DataError, match=f"row 1, column ts: .*{message}"):
        session.push("a", rows(ts))


def test_a_slice_of_much_is_read_not_copied_whole() -> None:
    session, _ = opened()
    session.push("a", rows(list(range(10 * FEW))).slice(0, 10))
    assert waiting_unread(session) == ["Batch"]


def test_tables_wait_unread_if_they_are_in_one_piece() -> None:
    session, _ = opened(5)
    session.push("a", pa.table(rows([1, 2])))
    session.push("a", pa.Table.from_batches([rows([2]), rows([3])]))
    session.push("a", pa.table(rows([3] * (FEW + 1))))
    assert waiting_unread(session) == ["Unread", "Batch", "Batch"]


def test_it_rests_after_rows_out_of_order() -> None:
    """Where one push is not in time order the next will hardly be: they are read at once for a while."""
    session, _ = opened(50)
    session.push("a", rows([3, 1, 2]))
    for at in range(fast_path.RESTS + 1):
        session.push("a", rows([at + 4]))
    assert waiting_unread(session)[-2:] == ["Batch", "Unread"]
