"""spark-join: a window join as a Penstock flow and as Spark's own stream-stream join, over the same files.

Spark is given its best: settings are tried on a sample, all are listed, the fastest is taken. Penstock is given its best
size of a batch likewise. Then the two are run in turn, their results to nowhere. Once more they read the same files, untimed: counts and
sums must be equal.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.surfaces.benches import workload
from penstock.surfaces.benches.points import Point
from penstock.surfaces.benches.spark import files, flows, native, steps
from penstock.surfaces.benches.spark.joins import THREE_WAY, TWO_WAY, WINDOW, Join
from penstock.surfaces.benches.spark.native import Setting
from penstock.surfaces.benches.spark.runs import WARM, Places, Run
from penstock.surfaces.benches.workload import Workload

AS_IT_COMES = 50.0
"""How many times the pace of Spark's join without any setting is wanted."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured. Rows are of every stream and batch."""

    settings: dict[str, tuple[Setting, ...]]
    own_rows: tuple[int, ...]
    turns: int
    batches: int
    """Counted in every run; those that warm up come on top."""


_SMALL, _MIDDLE, _LARGE = WINDOW, 25_000, 50_000
_EVERY = (
    *(
        Setting(rows, partitions, store)
        for store in ("HDFS-backed", "RocksDB")
        for partitions in (2, 4)
        for rows in (_SMALL, _MIDDLE, _LARGE)
    ),
    Setting(2 * _LARGE),
    Setting(2 * _LARGE, store="RocksDB"),
    Setting(_MIDDLE, 1),
    Setting(_LARGE, 1),
    Setting(_LARGE, 1, "RocksDB"),
    Setting(_MIDDLE, store="RocksDB, state format 4"),
)

QUICK = Extent(
    {
        "two-way": (Setting(_MIDDLE), Setting(_LARGE), Setting(2 * _LARGE), Setting(_LARGE, store="RocksDB")),
        "three-way": (Setting(_MIDDLE), Setting(_LARGE), Setting(2 * _LARGE)),
    },
    (400_000, 800_000),
    turns=1,
    batches=3,
)
FULL = Extent(
    {
        "two-way": _EVERY,
        "three-way": _EVERY,
    },
    (200_000, 400_000, 800_000),
    turns=3,
    batches=6,
)


def bench(*, quick: bool, tell: Tell) -> dict[str, Any]:
    """The JSON object of the command line."""
    from penstock.runtime.spark.local import local_spark

    extent = QUICK if quick else FULL
    spark = local_spark("local[2]", "penstock bench")
    measured: dict[str, Any] = {}
    reference: dict[str, Any] = {}
    why: list[str] = []
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        places = Places(Path(folder))
        measured[steps.NAME], reference[steps.NAME], failures = steps.compare(
            spark, places, 4 if quick else 8, tell
        )
        why += [f"{steps.NAME}: {f}" for f in failures]
        for join in (TWO_WAY, THREE_WAY):
            compared = Comparison(spark, join, extent, places, tell)
            measured[join.name], reference[join.name], failures = compared.run()
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
        "holds": not why,
        "why_not": why,
    }


class Comparison:
    """One join, both ways."""

    def __init__(self, spark: Any, join: Join, extent: Extent, places: Places, tell: Tell) -> None:
        self.spark = spark
        self.join = join
        self.extent = extent
        self.places = places
        self.tell = tell
        longest = max(*extent.own_rows, *(s.rows for s in extent.settings[join.name]))
        self.work: Workload = workload.make(
            join.streams, longest * (WARM + extent.batches), window=WINDOW, x_keys=2_000, y_keys=200_000
        )
        self._laid: dict[tuple[int, int], Path] = {}

    def run(self) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
        """What was measured, what it is measured against, and what does not hold."""
        self.tell(f"{self.join.name}: warming up")
        self.native(Setting(_SMALL), 2)
        self.own(_SMALL, 2)
        tried = {s: self.native(s, 2, 1).pace(1) for s in self.extent.settings[self.join.name]}
        best = max(tried, key=lambda s: tried[s])
        own_tried = {rows: self.own(rows, 2).pace() for rows in self.extent.own_rows}
        own_best = max(own_tried, key=lambda rows: own_tried[rows])
        theirs, ours, even = [], [], []
        spark_sums, own_sums = self.sums(best)
        failures = [] if spark_sums == own_sums else [f"results differ: {own_sums} and {spark_sums} natively"]
        for turn in range(self.extent.turns):
            self.tell(f"{self.join.name}: turn {turn + 1} of {self.extent.turns}")
            theirs.append(self.native(best).pace())
            even.append(self.own(best.rows).pace())
            ours.append(self.own(own_best).pace())
        bare = self.native(Setting(best.rows, None), 2, 1)
        pace, native_pace, even_pace = (statistics.median(p) for p in (ours, theirs, even))
        found = (
            Point("pace against the best native", pace / native_pace, self.join.wanted, "×", at_least=True),
            Point("pace against native as it comes", pace / bare.pace(1), AS_IT_COMES, "×", at_least=True),
        )
        measured = {
            "events_per_second": round(pace),
            "rows_a_stream_and_batch": own_best,
            "events_per_second_in_native's_batches": round(even_pace),
            "pace_against_native_in_equal_batches": round(even_pace / native_pace, 2),
            "rows_compared": spark_sums.get("rows", 0),
            "tried": {f"{rows:,} rows a stream and batch": round(p) for rows, p in own_tried.items()},
            "points": {p.name: p.json() for p in found},
        }
        reference = {
            "native_events_per_second": round(native_pace),
            "native_setting": str(best),
            "native_as_it_comes_events_per_second": round(bare.pace(1)),
            "native_as_it_comes": str(Setting(best.rows, None)),
            "spark": self.spark.version,
            "tried": {str(s): round(p) for s, p in tried.items()},
        }
        return measured, reference, [*failures, *(p.failure() for p in found if not p.holds)]

    def sums(self, setting: Setting) -> tuple[dict[str, int], dict[str, int]]:
        """What Spark and Penstock give for the same files, counted and added up."""
        folder = self._files(setting.rows, None, WARM)
        theirs = native.run(self.spark, self.join, setting, folder, self.places.new(), sums=True)
        return theirs.sums, flows.run(self.spark, self.join, folder, self.places.new(), sums=True).sums

    def native(self, setting: Setting, batches: int | None = None, warm: int = WARM) -> Run:
        self.tell(f"{self.join.name}: native, {setting}")
        folder = self._files(setting.rows, batches, warm)
        return self._told(native.run(self.spark, self.join, setting, folder, self.places.new()), warm)

    def own(self, rows: int, batches: int | None = None) -> Run:
        self.tell(f"{self.join.name}: Penstock, {rows:,} rows a stream and batch")
        return self._told(
            flows.run(self.spark, self.join, self._files(rows, batches, WARM), self.places.new()), WARM
        )

    def _told(self, run: Run, warm: int) -> Run:
        self.tell(f"{self.join.name}: {run.pace(warm):,.0f} rows a second")
        return run

    def _files(self, rows: int, batches: int | None, warm: int) -> Path:
        """The first rows of the workload, in so many batches."""
        number = warm + (batches or self.extent.batches)
        if (rows, number) not in self._laid:
            folder = self.places.folder(f"{self.join.name}-{rows}-{number}")
            files.lay(folder, self.work, rows, stop=rows * number)
            self._laid[rows, number] = folder
        return self._laid[rows, number]
