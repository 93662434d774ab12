"""Nothing is left behind: registering and dropping, and running for long."""

from __future__ import annotations

import gc
import os

import numpy as np

import penstock

CYCLES = int(os.environ.get("PENSTOCK_CYCLES", "2000"))

QUERIES = [
    "SELECT x, s || '{k}' AS t FROM a [RANGE 5] WHERE s <> 'literal {k}'",
    "SELECT l.x FROM a [RANGE 5] AS l, a [ROWS 3] AS r WHERE l.s = r.s AND l.s <> '{k}'",
    "SELECT s, COUNT(*) AS n, MAX(s) AS m FROM a [RANGE 5] WHERE x < {k} GROUP BY s",
    "SELECT DISTINCT s FROM a [RANGE 5] EXCEPT SELECT '{k}' AS s FROM a [RANGE 3]",
    "SELECT x FROM a [RANGE 5], n WHERE a.x = n.k AND n.v <> 'v{k}'",
]


def test_registering_and_dropping_leaves_nothing() -> None:
    s = penstock.connect()
    s.execute("CREATE STREAM a (ts BIGINT, x INT, s STRING) WATERMARK ts DELAY OF INTERVAL 0")
    s.create_table("n", [{"k": 1, "v": "one"}])
    kept = s.query("SELECT s, COUNT(*) AS n FROM a [RANGE 5] GROUP BY s", name="kept")
    sizes, strings, objects = [], [], []
    for cycle in range(CYCLES):
        q = s.query(QUERIES[cycle % len(QUERIES)].format(k=cycle))
        if cycle % 10 == 0:
            s.push("a", [{"ts": cycle, "x": 1, "s": f"s{cycle}"}])
            kept.changes()
        if cycle % 2:
            q.drop()
        else:
            s.execute(f"DROP QUERY {q.name}")
        sizes.append(s.size_bytes)
        strings.append(len(s.engine.strings))
        if cycle % (CYCLES // 10) == CYCLES // 20:
            gc.collect()
            objects.append(len(gc.get_objects()))
    assert list(s.queries) == ["kept"]
    assert list(s.engine.queries) == ["kept"]
    assert max(sizes[CYCLES // 2 :]) <= max(sizes[: CYCLES // 2])
    assert max(strings) < 2 * 4096
    assert objects[-1] <= objects[1] + 200


def test_refused_rows_leave_no_strings() -> None:
    s = penstock.connect()
    s.execute(
        "CREATE STREAM a (ts BIGINT, s STRING) WATERMARK ts DELAY OF INTERVAL 0; CREATE TABLE n (s STRING, k INT)"
    )
    for push in range(40):
        texts = [f"{push} {k}" for k in range(500)]
        refused = 0
        try:
            s.push("a", {"s": texts, "ts": [*range(499), None]})
        except penstock.DataError:
            refused += 1
        try:
            s.update_table("n", insert={"s": texts, "k": [*range(499), "no"]})
        except penstock.DataError:
            refused += 1
        assert refused == 2
    assert len(s.engine.strings) < 2 * 4096


def test_a_long_run_stays_small() -> None:
    """Ever new keys in short windows: state follows what is alive, not what has been."""
    s = penstock.connect()
    for stream in ("a", "b"):
        s.execute(f"CREATE STREAM {stream} (ts BIGINT, x BIGINT, s STRING) WATERMARK ts DELAY OF INTERVAL 2")
    texts = [
        "SELECT a.s, b.x FROM a [RANGE 4], b [RANGE 4] WHERE a.s = b.s",
        "SELECT a.s, b.x FROM a [ROWS 40], b [RANGE 4] WHERE a.s = b.s",
        "SELECT s, COUNT(*) AS n, MIN(s) AS m, COUNT(DISTINCT x) AS d FROM a [RANGE 4] GROUP BY s",
        "SELECT x, SUM(x) AS n FROM a [RANGE 6 SLIDE 3] GROUP BY x",
        "SELECT DISTINCT s FROM a [RANGE 4]",
        "SELECT s FROM a [RANGE 4] EXCEPT ALL SELECT s FROM b [RANGE 3]",
        "SELECT a.s FROM a [RANGE 4] LEFT ANTI JOIN b [RANGE 4] ON a.s = b.s",
        "ISTREAM(SELECT DISTINCT s FROM a [RANGE 4])",
    ]
    queries = [s.query(text) for text in texts]
    sizes, strings, pools = [], [], []
    for push in range(300):
        for stream in ("a", "b"):
            x = push * 60 + np.arange(100)
            rows = {"ts": push * 4 + np.arange(100) // 25, "x": x, "s": [f"key {k}" for k in x.tolist()]}
            s.push(stream, rows)
        for q in queries:
            q.changes()
        sizes.append(s.size_bytes)
        strings.append(len(s.engine.strings))
        pools.append(s.engine.strings.size_bytes)
    assert max(sizes[150:]) <= max(sizes[:150])
    assert max(strings[150:]) <= 1.2 * max(strings[:150])
    assert max(pools[150:]) <= 1.2 * max(pools[:150])
    assert s.engine.sources["a"].waiting < 200
