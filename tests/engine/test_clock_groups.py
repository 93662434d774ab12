"""Streams that queries read together share a clock; others have clocks of their own."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import penstock
from penstock.engine.clock_groups import ClockGroups, Reading, risen
from penstock.types.event_time import EARLIEST

STREAMS = "abcd"
WINDOW = 40


def connected(**options: object) -> penstock.Session:
    session = penstock.connect(clocks="group", **options)
    for name in STREAMS:
        session.execute(f"CREATE STREAM {name} (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    return session


def push(session: penstock.Session, stream: str, times: range) -> None:
    session.push(stream, {"ts": list(times), "x": [t % 3 for t in times]})


def values(query: penstock.Query) -> list[int]:
    return sorted(query.changes().column("x").to_pylist())


def test_a_silent_stream_holds_back_the_queries_that_read_it_and_no_others() -> None:
    session = connected()
    reads_a = session.query("SELECT x FROM a [RANGE 5]")
    joins = session.query("SELECT b.x FROM b [RANGE 5], c [RANGE 5] WHERE b.x = c.x")
    push(session, "a", range(100))
    push(session, "b", range(100))
    assert len(values(reads_a)) == 99
    assert reads_a.clock == 98
    assert joins.clock == session.clock < 0, "the stream that has had no rows is c"
    assert joins.changes().num_rows == 0


def test_a_query_that_connects_streams_begins_after_the_latest_of_them() -> None:
    session = connected()
    reads_a = session.query("SELECT ts AS x FROM a [RANGE 5]")
    reads_b = session.query("SELECT ts AS x FROM b [RANGE 5]")
    push(session, "a", range(100))
    push(session, "b", range(20))
    joins = session.query("SELECT a.ts AS x FROM a [RANGE 1000], b [RANGE 1000] WHERE a.ts = b.ts")
    push(session, "a", range(100, 200))
    assert (reads_a.clock, reads_b.clock, joins.clock) == (98, 18, 18), "a waits for b at 98"
    push(session, "b", range(20, 150))
    assert {reads_a.clock, reads_b.clock, joins.clock, session.clock} == {148}
    assert values(joins) == list(range(99, 149))
    assert values(reads_a) == values(reads_b) == list(range(149)), "nothing lost or doubled at the seam"
    joins.drop()
    assert (reads_a.clock, reads_b.clock) == (198, 148), "nothing connects them any more"
    assert values(reads_a) == list(range(149, 199))


def test_tables_have_the_version_of_each_clock() -> None:
    session = connected()
    session.create_table("t", [{"k": 0, "w": 1}])
    queries = {
        name: session.query(f"SELECT s.ts, t.w FROM {name} [RANGE 5] AS s, t WHERE s.x - s.x = t.k")
        for name in "ab"
    }
    push(session, "a", range(50))
    session.update_table("t", insert=[{"k": 0, "w": 2}], delete=[{"k": 0, "w": 1}])  # from 49 on
    with pytest.raises(penstock.DataError, match="an update at 20 is too late: the clock is at 48"):
        session.update_table("t", insert=[{"k": 0, "w": 3}], at=20)
    push(session, "a", range(50, 60))
    push(session, "b", range(60))
    for query in queries.values():
        rows = query.changes().to_pylist()
        assert [(row["ts"], row["w"]) for row in rows] == [(t, 1 if t < 49 else 2) for t in range(59)]


@pytest.mark.parametrize("options", [{}, {"share": False}, {"join": "eddy"}, {"budget": 10_000_000}], ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_queries_come_and_go_over_streams_with_different_clocks(
    seed: int, options: dict[str, object]
) -> None:
    """Every answer at its query's clock is that of the rows since the query began; clocks never fall."""
    drawn = random.Random(seed)
    session = connected(**options)
    rows: dict[str, list[int]] = {name: [] for name in STREAMS}
    running: dict[str, tuple[penstock.Query, tuple[str, ...], int]] = {}
    clocks: dict[str, int] = {}
    last = session.clock
    together = 0
    for turn in range(120):
        action = drawn.random()
        if action < 0.2 and len(running) < 8:
            read = tuple(drawn.sample(STREAMS, drawn.choice((1, 1, 2, 3))))
            touched = [q.clock for q, streams, _ in running.values() if set(streams) & set(read)]
            since = max(touched, default=session.clock) + 1
            query = session.query(_joined(read), name=f"q{turn}")
            running[query.name] = (query, read, since)
        elif action < 0.3 and running:
            query, *_ = running.pop(drawn.choice(list(running)))
            query.drop()
        elif action < 0.35:
            until = max(map(len, rows.values()))
            session.advance(until - 1)
            for times in rows.values():
                times.extend([-1] * (until - len(times)))
        else:
            name = drawn.choice(STREAMS[: drawn.choice((1, 2, 4))])
            new = range(len(rows[name]), len(rows[name]) + drawn.randrange(1, 30))
            push(session, name, new)
            rows[name].extend(new)
        for query, read, since in running.values():
            clock = query.clock
            assert clock >= clocks.get(query.name, clock), "a clock never falls"
            clocks[query.name] = clock
            found = query.snapshot().to_pylist()
            expected = _expected([rows[name] for name in read], since, clock)
            assert Counter(row["n"] for row in found) == expected, (turn, query.name, read, since, clock)
            together += len(read) > 1 and bool(expected)
        assert session.clock >= last
        last = session.clock
        if running:
            assert session.clock <= min(query.clock for query, *_ in running.values())
    assert together > 3, "joins have had answers"


def _joined(read: tuple[str, ...]) -> str:
    equal = " AND ".join(f"{read[0]}.x = {name}.x" for name in read[1:])
    return (
        f"SELECT {' * 1000 + '.join(f'{name}.ts' for name in read)} AS n FROM "
        f"{', '.join(f'{name} [RANGE {WINDOW}]' for name in read)}{f' WHERE {equal}' if equal else ''}"
    )


def _expected(streams: list[list[int]], since: int, clock: int) -> Counter[int]:
    """All combinations of live rows that agree on x, since the query began."""
    live = [[t for t in times if max(since, clock - WINDOW + 1, 0) <= t <= clock] for times in streams]
    made = Counter(live[0]) if len(live) == 1 else Counter()
    if len(live) > 1:
        for value in range(3):
            parts = [0]
            for position, times in enumerate(live):
                equal = [t for t in times if t % 3 == value]
                parts = [
                    part + t * (1000 if position < len(live) - 1 else 1) for part in parts for t in equal
                ]
            made.update(parts)
    return made


@pytest.mark.parametrize("seed", range(200))
def test_clocks_follow_from_queries_and_watermarks_alone(seed: int) -> None:
    """Groups that are kept up to date stand where groups stand that are made anew: a driver and its cells agree."""
    drawn = random.Random(seed)
    groups = ClockGroups(EARLIEST - 1)
    marks = dict.fromkeys(STREAMS, EARLIEST)
    readings: list[Reading] = []
    begun = EARLIEST
    for _ in range(60):
        action = drawn.random()
        if action < 0.25:
            streams = frozenset(drawn.sample(STREAMS, drawn.choice((1, 2, 2, 3))))
            connected_ = _connected(streams, readings)
            since = max(groups.now(connected_), groups.clock) + 1
            since = max([since, *(marks[s] for s in connected_)]) + drawn.choice((0, 0, 7))
            readings.append(Reading(streams, since))
            groups.add(readings[-1])
            begun = max(begun, since)
        elif action < 0.4 and readings:
            groups.remove(readings.pop(drawn.randrange(len(readings))))
        else:
            stream = drawn.choice(STREAMS)
            marks[stream] = max(marks[stream], 0) + drawn.randrange(20)
        risen(groups, marks)
        anew = risen(ClockGroups.of(readings, {}, EARLIEST - 1), marks)
        for stream, now in groups.clocks.items():
            # A stream that begins to be read stands just before the query's first instant, whatever its watermark.
            assert anew[stream] <= now <= max(anew[stream], begun - 1)


def _connected(streams: frozenset[str], readings: list[Reading]) -> set[str]:
    found, more = set(streams), True
    while more:
        grown = found.union(*(r.streams for r in readings if r.streams & found))
        more, found = grown != found, grown
    return found
