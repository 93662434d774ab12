"""Spark's own stream-stream join: the settings that are tried, and one run with one of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock_lab.benchmarks.spark import files, runs
from penstock_lab.benchmarks.spark.joins import WINDOW, Join
from penstock_lab.benchmarks.spark.runs import Run

_PARTITIONS = "spark.sql.shuffle.partitions"
_STORE = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_COUNTS = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows"
_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
_FILES = "spark.sql.streaming.checkpointFileManagerClass"
_ADAPTIVE = "spark.sql.adaptive.enabled"
_AFTERWARDS = "spark.sql.streaming.noDataMicroBatches.enabled"

SESSION = {
    # State stores of Spark's own are on the heap of this process, and one gigabyte is soon full.
    "spark.driver.memory": "4g",
    # Snapshots and tidying in the background, which would fall on some runs and not on others.
    "spark.sql.streaming.stateStore.maintenanceInterval": "10min",
}
"""What holds for all runs: a process has one heap and one thread for maintenance."""

_ROCKS: dict[str, str | None] = {_STORE: _ROCKSDB, _CHANGELOG: "true", _COUNTS: "false"}
STORES: dict[str, dict[str, str | None]] = {
    "HDFS-backed": {},
    "HDFS-backed, AQE": {_ADAPTIVE: "true"},
    "RocksDB": _ROCKS,
    "RocksDB without changelog": {**_ROCKS, _CHANGELOG: "false"},
    "RocksDB, state format 3": {**_ROCKS, _FORMAT: "3"},
    "RocksDB, state format 4": {**_ROCKS, _FORMAT: "4"},
}


@dataclass(frozen=True, slots=True)
class Setting:
    """`rows` come from every stream in a batch; no `partitions`: nothing is set at all."""

    rows: int
    partitions: int | None = 2
    store: str = "HDFS-backed"

    def __str__(self) -> str:
        what = "as it comes" if self.partitions is None else f"{self.store}, {self.partitions} partitions"
        return f"{what}, {self.rows:,} rows a stream and batch"

    def conf(self) -> dict[str, str | None]:
        if self.partitions is None:
            return {_PARTITIONS: None, _FILES: None, _ADAPTIVE: None}
        return {_PARTITIONS: str(self.partitions), **STORES[self.store]}


SMALL, MIDDLE, LARGE = WINDOW, 25_000, 50_000
EVERY = (
    *(
        Setting(rows, partitions, store)
        for store in ("HDFS-backed", "RocksDB")
        for partitions in (2, 4)
        for rows in (SMALL, MIDDLE, LARGE)
    ),
    Setting(2 * LARGE),
    Setting(2 * LARGE, store="RocksDB"),
    Setting(4 * LARGE),
    Setting(MIDDLE, 1),
    Setting(LARGE, 1),
    Setting(LARGE, 1, "RocksDB"),
    *(Setting(MIDDLE, store=store) for store in STORES if store not in ("HDFS-backed", "RocksDB")),
)
"""Store, partitions (the machine has two cores, and the session as many) and rows in a batch; the rest where it is likely to pay."""
FEW = (Setting(MIDDLE), Setting(LARGE), Setting(MIDDLE, 1), Setting(MIDDLE, store="RocksDB"))


def run(
    spark: Any, join: Join, setting: Setting, folder: Path, checkpoint: str, *, sums: bool = False
) -> Run:
    """Every batch's results to nowhere, counted and summed on the way, if asked for.

    An inner join has nothing to say in a batch without rows, so none is run after the last.
    """
    for name in join.streams:
        files.stream(spark, folder, name).withWatermark("ts", "0 seconds").createOrReplaceTempView(name)
    with runs.set_to(spark, {**setting.conf(), _AFTERWARDS: "false"}):
        results = spark.sql(join.native_text())
        writer = (runs.observed(results, "results") if sums else results).writeStream.format("noop")
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        return runs.native(writer.start())
