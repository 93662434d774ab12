"""Spark's own stream-stream join: the settings that are tried, and one run with one of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.surfaces.benches.spark import files, runs
from penstock.surfaces.benches.spark.joins import Join
from penstock.surfaces.benches.spark.runs import Run

_PARTITIONS = "spark.sql.shuffle.partitions"
_STORE = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
_FILES = "spark.sql.streaming.checkpointFileManagerClass"

STORES: dict[str, dict[str, str | None]] = {
    "HDFS-backed": {},
    "RocksDB": {_STORE: _ROCKSDB, _CHANGELOG: "true"},
    "RocksDB, state format 4": {_STORE: _ROCKSDB, _CHANGELOG: "true", _FORMAT: "4"},
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
            return {_PARTITIONS: None, _FILES: None}
        return {_PARTITIONS: str(self.partitions), **STORES[self.store]}


def run(
    spark: Any, join: Join, setting: Setting, folder: Path, checkpoint: str, *, sums: bool = False
) -> Run:
    """Every batch's results to nowhere, counted and summed on the way, if asked for."""
    for name in join.streams:
        files.stream(spark, folder, name).withWatermark("ts", "0 seconds").createOrReplaceTempView(name)
    with runs.set_to(spark, setting.conf()):
        results = spark.sql(join.native_text())
        writer = (runs.observed(results, "results") if sums else results).writeStream.format("noop")
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        return runs.native(writer.start())
