"""Under a load that stays too high: what rows cost, and which levels stay active."""

from __future__ import annotations

import random

import penstock

STREAMS = """
CREATE STREAM a (ts BIGINT, k INT, x INT) WATERMARK ts DELAY OF INTERVAL 0;
CREATE STREAM b (ts BIGINT, k INT) WATERMARK ts DELAY OF INTERVAL 0;
"""
JOIN = "SELECT a.x, b.k FROM a [RANGE 100], b [RANGE 100] WHERE a.k = b.k"


def test_what_a_row_costs_does_not_hang_on_how_many_partners_it_finds_room_for() -> None:
    """Twice as many partners take twice as many units, however often the room for pairs had to be enlarged."""
    spent = []
    for partners in (1000, 2000, 4000):
        s = penstock.connect(budget=0, allocation="fifo")
        s.execute(STREAMS)
        s.query(JOIN, name="q")
        pipeline = s.engine.queries["q"].pipeline
        s.push("b", [{"ts": 1, "k": 1}] * partners)
        s.advance(1)
        s.drain()
        s.push("a", [{"ts": 2, "k": 1, "x": 1}])
        s.advance(2)
        s.drain()
        spent.append(pipeline.spent)
    assert spent[1] / spent[0] < 2.01 and spent[2] / spent[0] < 4.01, spent


def test_levels_stay_active_as_long_as_anything_expires() -> None:
    """§4.3.2, case 3: levels are given up when no row expires, and not when none of theirs does."""
    drawn = random.Random(1)
    s = penstock.connect(budget=200, allocation="promote")
    s.execute(STREAMS)
    s.query(JOIN + " LIFESPAN 600 MICROSECONDS RANK 1 CRITERIA (a.x = 0)", name="q")
    pipeline = s.engine.queries["q"].pipeline
    active = []
    for t in range(1, 301):
        rows = [
            {"ts": t, "k": drawn.randrange(3), "x": drawn.randrange(10)} for _ in range(drawn.randrange(16))
        ]
        s.push("a", rows)
        s.push("b", [{"ts": t, "k": drawn.randrange(3)} for _ in range(drawn.randrange(3))])
        s.advance(t)
        active.append(bool(pipeline.scheduler.active))
    first = active.index(True)
    assert first < 100
    assert all(active[first:]), [t for t, on in enumerate(active) if t > first and not on]
    lost = {rank["rank"]: rank["expired"] for rank in pipeline.riders.every[0].tallies.json()["ranks"]}
    assert lost[None] > 500


def test_levels_become_active_before_rows_expire() -> None:
    """A queue that grows slowly is seen while all that waits can still be worked on in time."""
    s = penstock.connect(budget=100, allocation="promote")
    s.execute(STREAMS)
    s.query(JOIN + " LIFESPAN 1000 MICROSECONDS RANK 1 CRITERIA (a.x = 0)", name="q")
    pipeline = s.engine.queries["q"].pipeline
    active: frozenset[int] = frozenset()
    for t in range(1, 301):
        active = pipeline.scheduler.active
        s.push("a", [{"ts": t, "k": i % 3, "x": i % 10} for i in range(t, t + 3)])
        s.push("b", [{"ts": t, "k": t % 3}])
        s.advance(t)
        if pipeline.riders.every[0].tallies.lost:
            break
    assert pipeline.riders.every[0].tallies.lost
    assert active == {1}, "as the step began in which the first rows expired"
    assert not any(level == 1 for level, _ in pipeline.riders.every[0].tallies.lost)


def test_rows_are_sorted_before_operators_that_take_all_there_is() -> None:
    """Sorting behind a selective join costs least, and by its queue all levels would fit; but to join all rows takes nearly every step whole.

    What is left over there is for level 1; levels 2 and 3 are ten rows a step each, and there are units for them.
    """
    drawn = random.Random(3)
    s = penstock.connect(budget=150, allocation="promote")
    s.execute(STREAMS + "CREATE STREAM c (ts BIGINT, k INT) WATERMARK ts DELAY OF INTERVAL 0;")
    text = "SELECT a.x, a.k FROM a [RANGE 10], b [RANGE 1000], c [RANGE 1000] WHERE a.k = b.k AND a.k = c.k"
    ranks = "".join(f" RANK {n} CRITERIA (a.x = {n})" for n in (1, 2, 3))
    s.query(f"{text} LIFESPAN 450 MICROSECONDS{ranks}", name="q")
    pipeline = s.engine.queries["q"].pipeline
    for name in ("b", "c"):
        s.push(name, [{"ts": 1, "k": k} for k in range(5)])
    s.advance(1)
    for t in range(2, 152):
        s.push("a", [{"ts": t, "k": drawn.randrange(10), "x": drawn.randrange(20)} for _ in range(100)])
        s.advance(t)
    told = {rank["rank"]: rank for rank in pipeline.riders.every[0].tallies.json()["ranks"]}
    for level in (1, 2, 3):
        assert told[level]["expired"] < 0.05 * told[level]["delivered"], told
