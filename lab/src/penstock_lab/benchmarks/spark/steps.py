"""What a small micro-batch costs: a step of a Penstock flow against a native batch that reads the same rows and drops them.

Both go on from their checkpoints, turn by turn, over files laid down between the turns.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from penstock_lab.benchmarks import workload
from penstock_lab.benchmarks.points import Point
from penstock_lab.benchmarks.spark import files, flows, runs
from penstock_lab.benchmarks.spark.joins import TWO_WAY, WINDOW
from penstock_lab.benchmarks.spark.runs import WARM, Places

NAME = "micro-batch"
ROWS, LIMIT = 1_000, 3.0
"""Rows of all streams in a batch; how many times the native batch a step may take."""
BATCHES = 12
"""Counted in a turn; those that warm up come on top."""


def compare(
    spark: Any, places: Places, turns: int, tell: Callable[[str], None]
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Medians over all batches of all turns; the first turn only warms up."""
    rows = ROWS // len(TWO_WAY.streams)
    a_turn = rows * (WARM + BATCHES)
    work = workload.make(TWO_WAY.streams, a_turn * (turns + 1), window=WINDOW)
    folder, checkpoint = places.folder(NAME), places.new()
    files.lay(folder, work, rows, 0, a_turn)
    session, query = flows.opened(spark, TWO_WAY, folder, places.new())
    query.write(format="noop")
    nothing, mine, inside = [], [], []
    for turn in range(turns + 1):
        tell(f"{NAME}: {'warming up' if turn == 0 else f'turn {turn} of {turns}'}")
        if turn:
            files.lay(folder, work, rows, turn * a_turn, (turn + 1) * a_turn)
        empty = _nothing(spark, folder, checkpoint)
        own, handle = runs.flow(spark, session)
        if turn:
            nothing += [took for _, took in empty[WARM:]]
            mine += [took for _, took in own[WARM:]]
            steps = [p for p in handle.recentProgress[-len(own) - 2 :] if p["numInputRows"]]
            inside += [p["durationMs"] for p in steps[WARM:]]
    handle.stop()
    step, batch = statistics.median(mine), statistics.median(nothing)
    point = Point("a step against a native batch that does nothing", step / batch, LIMIT, "×")
    measured = {
        "milliseconds": round(step, 1),
        "of_these_in_cells": round(statistics.median(d["cells"] for d in inside), 1),
        "of_these_in_sinks": round(statistics.median(d["sinks"] for d in inside), 1),
        "batches": len(mine),
        "points": {point.name: point.json()},
    }
    reference = {"native_milliseconds": round(batch, 1), "batches": len(nothing), "rows_a_batch": ROWS}
    return measured, reference, [] if point.holds else [point.failure()]


def _nothing(spark: Any, folder: Any, checkpoint: str) -> list[tuple[int, float]]:
    frames = [files.stream(spark, folder, name) for name in TWO_WAY.streams]
    writer = frames[0].unionAll(frames[1]).writeStream.format("noop")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    return runs.native(query).batches
