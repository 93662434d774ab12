"""Run a flow for long: python -m tests.spark.soak [--minutes 30] [--share 0.7] [--cells 2] [--samples FILE]

Four queries of different patterns on local Spark. First files are always waiting, and the rate at which they are read is
measured; then rows come at a share of it while memory, state, disk and latency are looked at every five seconds; in the end
the current answers are compared with those of an embedded engine that was fed with the last rows. The last line is a JSON
object; the exit status is 0 if everything that is judged is flat, no row was late and all answers are right.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import penstock
from penstock.spark.local import local_spark
from tests.spark import soak_feed as feeding
from tests.spark.soak_feed import FILE, STREAMS, TICK, Feeder
from tests.spark.soak_watch import Watch, judged

WINDOW = 2_000
"""Ticks: 200,000 rows of a stream, seconds at any rate worth a run."""
DELAY = 2 * FILE // TICK
"""Files with the same time of writing may be read in either order."""
COLUMNS = {
    "a": {"ts": "BIGINT", "x": "INT", "g": "INT", "y": "INT"},
    "b": {"ts": "BIGINT", "x": "INT", "d": "DOUBLE"},
}
QUERIES = {
    "joined": f"SELECT a.x, a.y, b.d FROM a [RANGE {WINDOW}], b [RANGE {WINDOW}] WHERE a.x = b.x",
    "values": f"SELECT DISTINCT x FROM a [RANGE {WINDOW}]",
    "sums": f"SELECT g, SUM(y) AS t, COUNT(*) AS n FROM a [RANGE {WINDOW}] GROUP BY g",
    "only": f"SELECT x FROM a [RANGE {WINDOW}] EXCEPT SELECT x FROM b [RANGE {WINDOW}]",
}
SHOWN = {"joined": ["x", "y", "d"], "values": ["x"], "sums": ["g", "t", "n"], "only": ["x"]}


class Soak:
    def __init__(self, folder: Path, cells: int) -> None:
        self.folder, self.checkpoint = folder, folder / "checkpoint"
        self.spark = local_spark("local[2,4]", "penstock soak")
        self.feeder = Feeder.start(folder / "in")
        self.session = penstock.connect(self.spark, checkpoint=str(self.checkpoint), cells=cells)
        for name, columns in COLUMNS.items():
            reader = self.spark.readStream.schema(", ".join(map(" ".join, columns.items())))
            reader = reader.options(maxFilesPerTrigger=8, cleanSource="delete", maxFileAge="5m")
            self.session.create_stream(
                name, reader.parquet(str(folder / "in" / name)), time="ts", delay=DELAY
            )
        for name, text in QUERIES.items():
            self.session.query(text, name=name)
        self.session.foreach_batch(self.take)
        self.keeps = False
        self.handle = self.session.start(trigger={"processingTime": "500 milliseconds"})

    def take(self, frame: Any, step: int) -> None:
        """Every change is read; the last ones are kept."""
        if self.keeps:
            frame.write.mode("overwrite").parquet(str(self.folder / "last" / f"{step:012d}"))
        else:
            frame.write.format("noop").mode("append").save()

    def done(self) -> int:
        """Rows of each stream that have been read, and told to the feeder."""
        newest = self.session.flow.known.newest
        rows = (min(newest.values()) + 1) * TICK if len(newest) == len(STREAMS) else 0
        self.feeder.done.value = rows
        return rows

    def lag(self) -> int:
        return len(STREAMS) * (self.feeder.fed.value - self.done())

    def wait(self, seconds: float) -> None:
        """Let time pass, the feeder informed, and stop at the first error."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(0.05)
            self.done()
            if not self.handle.isActive:
                self.handle.awaitTermination()
                raise penstock.StateError("the flow has ended by itself")

    def peak(self, warm: float, seconds: float) -> float:
        """Rows a second, both streams, while files are waiting."""
        self.wait(warm)
        began, before = time.monotonic(), self.done()
        self.wait(seconds)
        return len(STREAMS) * (self.done() - before) / (time.monotonic() - began)

    def drain(self) -> None:
        """Let Spark read what is waiting: a load is judged by itself, not by what was left from before."""
        self.feeder.rate.value = feeding.PAUSE
        while self.lag():
            self.wait(0.2)

    def end(self) -> None:
        """Keep the changes of the last windows, then let everything that was fed be read."""
        self.keeps = True
        self.feeder.rate.value = feeding.FULL_SPEED
        until = self.feeder.fed.value + 2 * WINDOW * TICK
        while self.feeder.fed.value < until:
            self.wait(0.5)
        self.feeder.stop()
        self.handle.processAllAvailable()
        self.handle.stop()

    def close(self) -> None:
        self.feeder.stop()
        if self.handle.isActive:
            self.handle.stop()
        self.spark.stop()

    # ------------------------------------------------------------------ answers

    def answers(self) -> dict[str, dict[str, Any]]:
        """The answers at the clock as the changes tell them, and as an engine does that saw the last rows only."""
        here = penstock.connect()
        for name, columns in COLUMNS.items():
            here.create_stream(name, columns, time="ts", delay=DELAY)
        queries = {name: here.query(text, name=name) for name, text in QUERIES.items()}
        clock, fed = self.session.clock, self.feeder.fed.value
        for name in STREAMS:
            here.push(name, feeding.rows(name, max((clock - WINDOW) * TICK, 0), fed))
        changes = pq.read_table(self.folder / "last")
        found: dict[str, dict[str, Any]] = {}
        for name, query in queries.items():
            expected = Counter(map(tuple, zip(*query.snapshot().to_pydict().values(), strict=True)))
            got = alive(changes.filter(pa.compute.equal(changes["__query"], name)), SHOWN[name], clock)
            found[name] = {"rows": expected.total(), "right": here.clock == clock and got == expected}
        return found


def alive(changes: pa.Table, columns: list[str], clock: int) -> Counter[tuple[Any, ...]]:
    """What is true at the clock; of a group only its newest row, which has replaced the others."""
    keyed = columns[0] == "g"
    newest: dict[Any, tuple[int, int]] = {}
    found: Counter[tuple[Any, ...]] = Counter()
    parts = changes.select(["__op", "__ts", "__exp", *columns]).to_pydict().values()
    for op, ts, exp, *row in zip(*parts, strict=True):
        if exp <= clock:
            continue
        if not keyed:
            found[tuple(row)] += 1 if op == "+" else -1
        elif ts >= newest.get(row[0], (ts, 0))[0]:
            newest[row[0]] = (ts, row)
    return Counter(tuple(row) for _, row in newest.values()) if keyed else +found


def run(minutes: float, share: float, cells: int, folder: Path, kept: Path | None) -> dict[str, Any]:
    soak = Soak(folder, cells)
    try:
        peak = soak.peak(30, 60)
        print(f"at most {peak:,.0f} rows/s; now {share * peak:,.0f} for {minutes:g} minutes", flush=True)
        soak.drain()
        soak.feeder.rate.value = share * peak
        soak.wait(20)
        watch = Watch(soak.spark, soak.handle, soak.checkpoint, soak.lag)
        soak.wait(60 * minutes)
        samples = watch.stop()
        if kept is not None:
            kept.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
        soak.end()
        late = soak.session.late("a").count() + soak.session.late("b").count()
        figures, answers = judged(samples), soak.answers()
    finally:
        soak.close()
    flat = {name: figure["flat"] for name, figure in figures.items() if "flat" in figure}
    return {
        "minutes": minutes,
        "cells": cells,
        "peak_rows_per_second": round(peak),
        "rows_per_second": round(share * peak),
        "rows": len(STREAMS) * soak.feeder.fed.value,
        "steps": soak.session.flow.step,
        "late_rows": late,
        "figures": figures,
        "answers": answers,
        "flat": flat,
        "holds": all(flat.values()) and late == 0 and all(a["right"] and a["rows"] for a in answers.values()),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--share", type=float, default=0.7, help="of the rate that was measured")
    parser.add_argument("--cells", type=int, default=2)
    parser.add_argument("--samples", type=Path, help="a file to write the samples to, a JSON object a line")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-soak-", ignore_cleanup_errors=True) as folder:
        found = run(arguments.minutes, arguments.share, arguments.cells, Path(folder), arguments.samples)
    print(json.dumps(found))
    return 0 if found["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
