"""Keep the Java classes that Spark loads, for every Spark that tests start: python -m tests.spark.classes FILE

A Java process that is given FILE need not load and check them itself (11 → 5 s of processor time until Spark has counted
ten rows). Spark does here what flows ask of it, without a flow, so that no kernel is needed. Without Java there is no file.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.spark.java import find_java
from penstock.spark.local import local_spark


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def main(file: Path) -> int:
    if find_java() is None:
        return 0
    made = file.with_suffix(".new")
    os.environ["SPARK_SUBMIT_OPTS"] = (
        f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ArchiveClassesAtExit={made} -Xlog:disable"
    )
    spark = local_spark("local[2]", "penstock classes")
    with tempfile.TemporaryDirectory() as folder:
        _play(spark, Path(folder))
    java = spark.sparkContext._gateway.proc
    spark.stop()
    java.stdin.close()  # the driver's Java leaves, and writes down what it has loaded
    java.wait(300)
    if made.is_file():
        made.replace(file)
    return 0


def _play(spark: Any, folder: Path) -> None:
    """A stream of files through a repartition and Python to a sink, twice; rows from Arrow and back; a view."""
    read, out = folder / "in", folder / "out"
    rows = pa.table({"ts": pa.array([1, 2, 3]), "s": ["a", "b", None], "d": [0.5, None, 1.5]})
    frame = spark.createDataFrame(rows)
    frame.write.parquet(str(read))

    def take(batch: Any, number: int) -> None:
        kept = batch.persist()
        kept.toArrow()
        kept.write.mode("append").parquet(str(out))
        kept.unpersist()

    for _ in range(2):
        stream = spark.readStream.schema(frame.schema).parquet(str(read))
        both = stream.selectExpr("ts", "upper(s) AS s", "d").where("ts > 0").union(stream.where("d > 1"))
        spread = both.repartition(2, "ts").mapInArrow(same, frame.schema)
        query = (
            spread.writeStream.foreachBatch(take)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        frame.write.mode("append").parquet(str(read))
    spark.read.parquet(str(out)).groupBy("s").count().orderBy("s").collect()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
