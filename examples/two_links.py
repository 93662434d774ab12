"""Hosts that talk on one network link and not on the other, kept up to date while rows arrive and expire."""

import penstock

s = penstock.connect()
s.execute("""
    CREATE STREAM north (ts BIGINT, host STRING, bytes INT) WATERMARK ts DELAY OF INTERVAL 0;
    CREATE STREAM south (ts BIGINT, host STRING, bytes INT) WATERMARK ts DELAY OF INTERVAL 0;
""")
one_sided = s.query(
    """SELECT n.host, n.bytes FROM north [RANGE 60] AS n
       WHERE NOT EXISTS (SELECT 1 FROM south [RANGE 60] AS s WHERE s.host = n.host)""",
    name="one_sided",
)
print(one_sided.explain())

s.push("north", [{"ts": 1, "host": "ada", "bytes": 70}, {"ts": 2, "host": "bob", "bytes": 10}])
s.push("south", [{"ts": 30, "host": "ada", "bytes": 5}])
s.advance(30)
print(one_sided.changes().to_pylist())

s.advance(100)  # every window has run out by now
print(one_sided.changes().to_pylist(), one_sided.snapshot().num_rows)
