"""spark-queries: many selections on one source in one flow, against one selection that gives the same rows.

The rows that one query selects are shared out among fifty, and among five hundred: the same input, the same output in
all, one sink. Beside it, as many separate streaming queries of Spark's own as finish in reasonable time.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from penstock_lab.benchmarks import workload
from penstock_lab.benchmarks.points import Point
from penstock_lab.benchmarks.spark import files, runs
from penstock_lab.benchmarks.spark.runs import WARM, Places

NUMBERS = (1, 50, 500)
NATIVE_NUMBERS = (1, 5, 20)
LIMIT = 3.0
"""How many times what one query costs five hundred may cost."""
ROWS = 100_000
"""In a batch."""
KEYS, SELECTED = 200_000, 20_000
"""The values of the column that is selected on, and how many of them some query wants: a tenth."""

SELECTION = "SELECT ts, x, y FROM a WHERE y BETWEEN {} AND {}"

Tell = Callable[[str], None]


def ranges(number: int) -> list[tuple[int, int]]:
    """The wanted values shared out among so many queries, first and last."""
    width = SELECTED // number
    return [(1 + width * i, width * (i + 1)) for i in range(number)]


def bench(*, quick: bool, tell: Tell) -> dict[str, Any]:
    """The JSON object of the command line."""
    from penstock.spark.local import local_spark

    turns, batches = (2, 3) if quick else (3, 6)
    spark = local_spark("local[2]", "penstock bench")
    work = workload.make("a", ROWS * (WARM + batches), y_keys=KEYS)
    expected = int((work.streams["a"].y <= SELECTED).sum())
    costs: dict[int, list[float]] = {number: [] for number in NUMBERS}
    outside: dict[int, list[float]] = {number: [] for number in NUMBERS}
    native: dict[int, float] = {}
    why: list[str] = []
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as root:
        places = Places(Path(root))
        folder = places.folder("a")
        files.lay(folder, work, ROWS)
        for turn in range(turns + 1):
            for number in NUMBERS if turn else NUMBERS[:1]:
                tell(f"{number} in one flow, {f'turn {turn} of {turns}' if turn else 'warming up'}")
                cost, sinks, rows = _flow(spark, number, folder, places.new())
                if rows != expected:
                    why.append(f"{number} queries gave {rows} rows, {expected} wanted")
                if turn:
                    costs[number].append(cost)
                    outside[number].append(cost - sinks)
        for number in NATIVE_NUMBERS[:1] + NATIVE_NUMBERS:  # the first only warms up
            tell(f"{number} separate native queries")
            native[number], rows = _native(spark, number, folder, places)
            if rows != expected:
                why.append(f"{number} native queries gave {rows} rows, {expected} wanted")
    spark.stop()
    cost_of = {number: statistics.median(taken) for number, taken in costs.items()}
    bare = {number: statistics.median(taken) for number, taken in outside.items()}
    point = Point(
        f"cost of {NUMBERS[-1]} queries against one",
        cost_of[NUMBERS[-1]] / cost_of[1],
        LIMIT,
        "×",
        more={
            f"of {NUMBERS[1]}": cost_of[NUMBERS[1]] / cost_of[1],
            "without_sinks": bare[NUMBERS[-1]] / bare[1],
        },
    )
    measured = {
        **{f"milliseconds_a_batch_with_{n}": round(c, 1) for n, c in cost_of.items()},
        **{f"events_per_second_with_{n}": round(1000 * ROWS / c) for n, c in cost_of.items()},
        "rows": expected,
        "rows_a_batch": ROWS,
        "sink": "the changes of all queries together, to noop",
        "points": {point.name: point.json()},
    }
    reference = {
        **{f"native_milliseconds_a_batch_with_{n}": round(c, 1) for n, c in native.items()},
        "native": "separate streaming queries in one session, from the first's start of a batch to the last's end",
        "native_cost_a_further_query": round(
            (native[NATIVE_NUMBERS[-1]] - native[1]) / (NATIVE_NUMBERS[-1] - 1) / native[1], 3
        ),
        "own_cost_a_further_query": round(
            (cost_of[NUMBERS[-1]] - cost_of[1]) / (NUMBERS[-1] - 1) / cost_of[1], 5
        ),
    }
    if not point.holds:
        why.append(point.failure())
    return {
        "name": "spark-queries",
        "claim": (
            f"{NUMBERS[-1]} selections on one source in one flow cost at most {LIMIT:g} times one selection that gives the same "
            f"rows; one session, local[2]; time from trigger to commit of all batches but the first {WARM}"
        ),
        "measured": {"selections": measured},
        "reference": {"selections": reference},
        "holds": not why,
        "why_not": why,
    }


def _flow(spark: Any, number: int, folder: Path, checkpoint: str) -> tuple[float, float, int]:
    """Milliseconds a batch, those of them in sinks, and rows out in all."""
    import penstock

    session = penstock.connect(spark, checkpoint=checkpoint)
    session.create_stream("a", files.stream(spark, folder, "a"), time="ts", delay=0)
    queries = [session.query(SELECTION.format(*ends), name=f"q{i}") for i, ends in enumerate(ranges(number))]
    session.write(format="noop")
    batches, handle = runs.flow(spark, session)
    sinks = [p["durationMs"]["sinks"] for p in handle.recentProgress if p["numInputRows"]]
    handle.stop()
    cost = statistics.fmean(took for _, took in batches[WARM:])
    return cost, statistics.fmean(sinks[WARM:]), sum(q.matched for q in queries)


def _native(spark: Any, number: int, folder: Path, places: Places) -> tuple[float, int]:
    """Milliseconds a batch of all queries, running side by side, and rows out in all."""
    started = []
    files.stream(spark, folder, "a").createOrReplaceTempView("a")
    for ends in ranges(number):
        frame = spark.sql(SELECTION.format(*ends)).select("x", "y")
        writer = runs.observed(frame, "selected").writeStream.format("noop")
        writer = writer.option("checkpointLocation", places.new()).trigger(availableNow=True)
        started.append(writer.start())
    rows, begun, ended = 0, [], []
    for query in started:
        rows += runs.native(query).sums["rows"]
        counted = [p for p in query.recentProgress if p["numInputRows"]][WARM:]
        begun.append(_began(counted[0]))
        ended.append(_began(counted[-1]) + counted[-1]["durationMs"]["triggerExecution"])
    return (max(ended) - min(begun)) / len(counted), rows


def _began(progress: Any) -> float:
    """When a batch was triggered, in milliseconds."""
    return 1000 * datetime.fromisoformat(progress["timestamp"]).timestamp()
