"""spark-join: a window join as a Penstock flow and as Spark's own stream-stream join, over the same files.

Spark is given its best: settings are tried (`successive_halving`), all are listed, the fastest is taken. The three-way join, which takes Spark
several times as long, is tried with the better half of them. Penstock is given its best size of a batch likewise. Then the two are run in turn, their
results to nowhere. Once more they read the same files, untimed: counts and sums must be equal.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock_lab.benchmarks import workload
from penstock_lab.benchmarks.points import Point
from penstock_lab.benchmarks.spark import files, flows, native, steps
from penstock_lab.benchmarks.spark.joins import THREE_WAY, TWO_WAY, WINDOW, Join
from penstock_lab.benchmarks.spark.native import SMALL, Setting
from penstock_lab.benchmarks.spark.runs import WARM, Places, Run
from penstock_lab.benchmarks.spark.successive_halving import Round, Tried, fastest
from penstock_lab.benchmarks.workload import Workload

AS_IT_COMES = 50.0
"""How many times the pace of Spark's join without any setting is wanted."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured. Rows are of every stream and batch."""

    settings: tuple[Setting, ...]
    rounds: tuple[Round, ...]
    own_rows: tuple[int, ...]
    turns: int
    batches: int
    """Counted in every run; those that warm up come on top."""
    bare: int
    """Batches counted of Spark's join as it comes."""


QUICK = Extent(native.FEW, (Round(1, 1),), (800_000,), turns=1, batches=2, bare=1)
FULL = Extent(
    native.EVERY,
    (Round(1, 5), Round(2, 3), Round(3, 1)),
    (200_000, 400_000, 800_000),
    turns=3,
    batches=4,
    bare=2,
)


def bench(*, quick: bool, tell: Tell) -> dict[str, Any]:
    """The JSON object of the command line."""
    from penstock.spark.local import local_spark

    extent = QUICK if quick else FULL
    began = time.perf_counter()
    spark = local_spark("local[2]", "penstock bench", native.SESSION)

    def told(what: str) -> None:
        tell(f"{time.perf_counter() - began:4.0f} s  {what}")

    measured: dict[str, Any] = {}
    reference: dict[str, Any] = {}
    why: list[str] = []
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        places = Places(Path(folder))
        measured[steps.NAME], reference[steps.NAME], failures = steps.compare(
            spark, places, 2 if quick else 8, told
        )
        why += [f"{steps.NAME}: {f}" for f in failures]
        settings = extent.settings
        for join in (TWO_WAY, THREE_WAY):
            compared = Comparison(spark, join, extent, settings, places, told)
            measured[join.name], reference[join.name], failures = compared.run()
            settings = compared.better
            why += [f"{join.name}: {f}" for f in failures]
    spark.stop()
    claim = (
        f"a window join on Spark at least {TWO_WAY.wanted:g} times as fast as Spark's own stream-stream join with its best settings, a "
        f"selective three-way join {THREE_WAY.wanted:g} times, both {AS_IT_COMES:g} times as fast as that join without settings, and a "
        f"micro-batch of 1,000 rows in at most {steps.LIMIT:g} times a native batch that does nothing; same files, one session, local[2]; "
        f"rows over the time from trigger to commit of all batches but the first {WARM}"
    )
    return {
        "name": "spark-join",
        "claim": claim,
        "measured": measured,
        "reference": reference,
        "seconds": round(time.perf_counter() - began),
        "holds": not why,
        "why_not": why,
    }


class Comparison:
    """One join, both ways."""

    def __init__(
        self,
        spark: Any,
        join: Join,
        extent: Extent,
        settings: tuple[Setting, ...],
        places: Places,
        tell: Tell,
    ) -> None:
        self.spark = spark
        self.join = join
        self.extent = extent
        self.settings = settings
        self.places = places
        self.tell = tell
        self.better: tuple[Setting, ...] = ()
        """The half of the settings with which Spark was faster, once that is known."""
        longest = max(*extent.own_rows, *(s.rows for s in settings))
        self.work: Workload = workload.make(
            join.streams, longest * (WARM + extent.batches), window=WINDOW, x_keys=2_000, y_keys=200_000
        )
        self._laid: dict[tuple[int, int], Path] = {}

    def run(self) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
        """What was measured, what it is measured against, and what does not hold."""
        self.tell(f"{self.join.name}: warming up")
        self.native(Setting(SMALL), 2, 0)
        tried = self._tried()
        best = tried[0].setting
        self.better = tuple(t.setting for t in tried[: (len(tried) + 1) // 2])
        sizes = self.extent.own_rows
        own_tried = {rows: self.own(rows, 2).pace() for rows in sizes} if len(sizes) > 1 else {sizes[0]: 0.0}
        own_best = max(own_tried, key=lambda rows: own_tried[rows])
        spark_sums, own_sums = self.sums(best)
        theirs, ours, even = [], [], []
        for turn in range(self.extent.turns):
            self.tell(f"{self.join.name}: turn {turn + 1} of {self.extent.turns}")
            theirs.append(self.native(best).pace())
            even.append(self.own(best.rows).pace())
            ours.append(self.own(own_best).pace())
        # Into empty state, which makes its first batch the fastest.
        bare = self.native(Setting(best.rows, None), self.extent.bare, 0).pace(0)
        pace, native_pace, even_pace = (statistics.median(p) for p in (ours, theirs, even))
        found = (
            Point("pace against the best native", pace / native_pace, self.join.wanted, "×", at_least=True),
            Point("pace against native as it comes", pace / bare, AS_IT_COMES, "×", at_least=True),
        )
        measured = {
            "events_per_second": round(pace),
            "rows_a_stream_and_batch": own_best,
            "events_per_second_in_native's_batches": round(even_pace),
            "pace_against_native_in_equal_batches": round(even_pace / native_pace, 2),
            "results_compared": spark_sums.get("rows", 0),
            "tried": {f"{rows:,} rows a stream and batch": round(p) for rows, p in own_tried.items() if p},
            "points": {p.name: p.json() for p in found},
        }
        reference = {
            "native_events_per_second": round(native_pace),
            "native_setting": str(best),
            "native_as_it_comes_events_per_second": round(bare),
            "native_as_it_comes": str(Setting(best.rows, None)),
            "spark": self.spark.version,
            "tried": {str(t): round(t.pace) for t in tried},
        }
        failures = differences(spark_sums, own_sums) + [p.failure() for p in found if not p.holds]
        return measured, reference, failures

    def _tried(self) -> list[Tried[Setting]]:
        """Spark's settings, the best one first; one batch of each run warms up."""
        return fastest(
            self.settings, lambda s, batches: self.native(s, batches, 1).pace(1), self.extent.rounds
        )

    def sums(self, setting: Setting) -> tuple[dict[str, int], dict[str, int]]:
        """What Spark and Penstock give for the same files, counted and added up."""
        self.tell(f"{self.join.name}: comparing results")
        folder = self._files(setting.rows, None, 0)
        theirs = native.run(self.spark, self.join, setting, folder, self.places.new(), sums=True)
        return theirs.sums, flows.run(self.spark, self.join, folder, self.places.new(), sums=True).sums

    def native(self, setting: Setting, batches: int | None = None, warm: int = WARM) -> Run:
        folder = self._files(setting.rows, batches, warm)
        run = native.run(self.spark, self.join, setting, folder, self.places.new())
        return self._told(f"native, {setting}", run, warm)

    def own(self, rows: int, batches: int | None = None) -> Run:
        run = flows.run(self.spark, self.join, self._files(rows, batches, WARM), self.places.new())
        return self._told(f"Penstock, {rows:,} rows a stream and batch", run, WARM)

    def _told(self, what: str, run: Run, warm: int) -> Run:
        self.tell(f"{self.join.name}: {what}: {run.pace(warm):,.0f} rows a second")
        return run

    def _files(self, rows: int, batches: int | None, warm: int) -> Path:
        """The first rows of the workload, in so many batches."""
        number = warm + (batches or self.extent.batches)
        if (rows, number) not in self._laid:
            folder = self.places.folder(f"{self.join.name}-{rows}-{number}")
            files.lay(folder, self.work, rows, stop=rows * number)
            self._laid[rows, number] = folder
        return self._laid[rows, number]


def differences(theirs: dict[str, int], ours: dict[str, int]) -> list[str]:
    """In what the results of both differ; results there must be."""
    if theirs != ours:
        return [f"results differ: {ours} and {theirs} natively"]
    return [] if theirs.get("rows") else ["there are no results to compare"]
