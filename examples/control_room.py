"""A control room: two desks watch the same sensors and rank them differently, a third asks that no sensor is forgotten. There is too much for all."""

import random

import penstock

s = penstock.connect(budget=400, guaranteed=0.1)  # work units a step: not enough for all
s.execute("""
    CREATE STREAM readings (ts BIGINT, sensor INT, heat INT) WATERMARK ts DELAY OF 0;
    CREATE STREAM rounds (ts BIGINT, sensor INT, guard INT) WATERMARK ts DELAY OF 0;
""")
NEAR = "FROM readings [RANGE 50], rounds [RANGE 200] WHERE readings.sensor = rounds.sensor LIFESPAN 1500"
fire = s.query(
    f"SELECT readings.sensor, guard, heat {NEAR} RANK 1 CRITERIA (heat > 90)", name="fire", weight=3
)
frost = s.query(f"SELECT readings.sensor, guard {NEAR} RANK 1 CRITERIA (heat < 5)", name="frost")
watch = s.query(
    "SELECT sensor, heat FROM readings [RANGE 50] LIFESPAN 1500 RANK 1 CRITERIA (TRUE) COVER EVERY 500 BY sensor",
    name="watch",
)

drawn = random.Random(7)
told = {"fire": [0, 0], "frost": [0, 0]}
for step in range(40):
    times = sorted(drawn.randrange(step * 100, step * 100 + 100) for _ in range(300))
    sensors = [0 if drawn.random() < 0.6 else drawn.randrange(200) for _ in times]
    s.push("readings", {"ts": times, "sensor": sensors, "heat": [drawn.randrange(100) for _ in times]})
    guards = {"ts": times[:20], "sensor": [drawn.randrange(200) for _ in range(20)], "guard": list(range(20))}
    s.push("rounds", guards)
    if step == 20:
        s.execute("ALTER QUERY frost SET WEIGHT 3")  # the other desk is as important now
    s.advance(step * 100 + 99)
    for query in (fire, frost):
        for row in query.changes().to_pylist():
            told[query.name][row["__rank"] == 1] += 1

for query in (fire, frost):
    rest, best = told[query.name]
    print(f"{query.name}: {best} of rank 1, {rest} others; {query.load['riders']} queries ride on one join")
s.drain()
s.advance(10_000)
(covered,) = watch.load["coverage"]
print(
    f"watch: {covered['periods']} periods, {covered['objects']} sensors in them, {covered['missed']} missed"
)
