"""A few hundred alerts over one stream, registered and dropped while rows flow: every row is looked at once for all of them."""

import json
import random

import penstock

rng = random.Random(7)
s = penstock.connect()
s.execute(
    "CREATE STREAM readings (ts BIGINT, sensor INT, heat DOUBLE, site STRING) WATERMARK ts DELAY OF INTERVAL 0"
)
s.execute("CREATE STREAM repairs (ts BIGINT, sensor INT, crew STRING) WATERMARK ts DELAY OF INTERVAL 0")


ALERT = "SELECT ts, sensor, heat FROM readings [RANGE 60] WHERE {}"
REPAIRED = """
    SELECT r.sensor, r.heat FROM readings [RANGE 60] AS r, repairs [RANGE 600] AS p
    WHERE r.sensor = p.sensor AND r.heat > 80 AND p.crew = '{}'
"""


def alert() -> str:
    """What somebody wants to be told of; others may want the same."""
    site, heat = rng.choice(["north", "south", "quay"]), rng.randint(70, 99)
    place = f"site = '{site}' AND heat > {heat}"
    sensors = f"sensor IN ({rng.randrange(50)}, {rng.randrange(50)}) AND heat > {heat}"
    return ALERT.format(rng.choice([place, sensors, f"{place} OR {sensors}"]))


alerts = [s.query(alert()) for _ in range(300)]
for crew in ("day", "night"):
    s.query(REPAIRED.format(crew), name=f"repaired_by_{crew}")

rows = told = 0
for minute in range(20):
    times = sorted(rng.randrange(60 * minute, 60 * minute + 60) for _ in range(1000))
    s.push(
        "readings",
        [
            {
                "ts": t,
                "sensor": rng.randrange(50),
                "heat": rng.uniform(0, 100),
                "site": rng.choice(["north", "south", "quay"]),
            }
            for t in times
        ],
    )
    s.push("repairs", [{"ts": times[0], "sensor": rng.randrange(50), "crew": rng.choice(["day", "night"])}])
    s.advance(60 * minute + 59)
    rows += len(times)
    told += sum(one.changes().num_rows for one in alerts)
    for number in rng.sample(range(len(alerts)), 30):  # some people leave, others come
        alerts[number].drop()
        alerts[number] = s.query(alert())

flow = json.loads(s.explain("json"))["streams"]["readings"]
print(f"{rows:,} readings, {len(s.queries)} queries, {told:,} alerts")
print(
    f"{flow['visits'] / flow['rows']:.2f} grouped filters visited and {flow['lineage_bytes']} bytes of lineage a row"
)
for one in flow["operators"]:
    print(f"  {one['operator']}: {one['predicates']} predicates in {one['cells']} cells")
for name in ("repaired_by_day", "repaired_by_night"):
    print(f"{name}: {s.queries[name].matched} results, {s.queries[name].snapshot().num_rows} at {s.clock}")
for one in alerts:
    one.drop()
print(f"{len(s.queries)} queries left")
