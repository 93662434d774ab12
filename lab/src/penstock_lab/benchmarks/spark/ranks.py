"""spark-ranks: a flow with ranks and a budget that is never spent against the same flow with neither, over the same files.

In every turn each goes through all files, the one first that was second before; batch is compared with batch. Time is from trigger to commit, so
what else the machine does is in it: many turns, and medians. The answers must be the same but for `__rank`: while warming up they are added up.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock_lab.benchmarks import workload
from penstock_lab.benchmarks.points import Point
from penstock_lab.benchmarks.spark import files, runs
from penstock_lab.benchmarks.spark.joins import TWO_WAY, WINDOW
from penstock_lab.benchmarks.spark.runs import WARM, Places, Run

PLAIN, RANKED = "no ranks, no budget", "ranks and a budget"
RANKS = " LIFESPAN 1 SECOND RANK 1 CRITERIA (a.y % 20 = 0) RANK 2 CRITERIA (a.y % 20 = 1) RANK 3 CRITERIA (b.y % 20 = 2)"
LEAST = 0.95
ROWS = 20_000
"""Of each stream in a batch: two windows."""
ENOUGH = 1 << 50

Tell = Callable[[str], None]


def bench(*, quick: bool, tell: Tell) -> dict[str, Any]:
    """The JSON object of the command line."""
    from penstock.spark.local import local_spark

    turns, batches = (4, 6) if quick else (10, 10)
    spark = local_spark("local[2]", "penstock bench")
    work = workload.make(TWO_WAY.streams, ROWS * (WARM + batches), window=WINDOW)
    found: dict[str, list[Run]] = {PLAIN: [], RANKED: []}
    sums: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as root:
        places = Places(Path(root))
        folder = places.folder(TWO_WAY.streams)
        files.lay(folder, work, ROWS)
        for turn in range(turns + 1):
            order = (PLAIN, RANKED) if turn % 2 else (RANKED, PLAIN)
            for name in order:
                tell(f"{name}, {f'turn {turn} of {turns}' if turn else 'warming up'}")
                one = _run(spark, folder, places.new(), ranked=name == RANKED, sums=not turn)
                if turn:
                    one.sums = sums[name]
                    found[name].append(one)
                else:
                    sums[name] = one.sums
    spark.stop()
    return judged(found)


def judged(found: dict[str, list[Run]]) -> dict[str, Any]:
    """What the runs of both say."""
    pairs = list(zip(found[PLAIN], found[RANKED], strict=True))
    ratios = [
        before / now
        for one, other in pairs
        for (_, before), (_, now) in zip(one.batches[WARM:], other.batches[WARM:], strict=True)
    ]
    point = Point(
        "rows a second, ranks and a budget that is never spent against neither",
        statistics.median(ratios),
        LEAST,
        "×",
        at_least=True,
        more={"of whole turns": statistics.median(b.pace() / a.pace() for a, b in pairs)},
    )
    why = [] if point.holds else [point.failure()]
    why += [
        f"answers differ: {b.sums} with ranks, {a.sums} without" for a, b in pairs[:1] if a.sums != b.sums
    ]
    case = "two-way join"
    return {
        "name": "spark-ranks",
        "claim": f"without overload a flow with ranks has at least {100 * LEAST:g} % of the throughput without, and the same answers",
        "measured": {
            case: {
                "events_per_second": round(statistics.median(b.pace() for _, b in pairs)),
                "batches_compared": len(ratios),
                "points": {point.name: point.json()},
            }
        },
        "reference": {
            case: {
                "without_ranks_events_per_second": round(statistics.median(a.pace() for a, _ in pairs)),
                "results": pairs[0][0].sums.get("rows", 0),
            }
        },
        "holds": not why,
        "why_not": why,
    }


def _run(spark: Any, folder: Path, checkpoint: str, *, ranked: bool, sums: bool) -> Run:
    """Every step's changes to nowhere; counted and summed on the way, if asked for."""
    from pyspark.sql import Observation

    import penstock

    done = Run()

    def take(frame: Any, step: int) -> None:
        watch = Observation(f"step {step}")
        if sums:
            results = frame.select(*(name for name in frame.columns if not name.startswith("__")))
            frame = runs.observed(results, watch)
        frame.write.format("noop").mode("append").save()
        if sums:
            done.add(watch.get)

    options: dict[str, Any] = {"budget": ENOUGH, "allocation": "promote"} if ranked else {}
    session = penstock.connect(spark, checkpoint=checkpoint, **options)
    for name in TWO_WAY.streams:
        session.create_stream(name, files.stream(spark, folder, name), time="ts", delay=0)
    text = TWO_WAY.own_text() + (RANKS if ranked else "")
    session.query(text, name="bench").foreach_batch(take)
    done.batches, handle = runs.flow(spark, session)
    handle.stop()
    return done
