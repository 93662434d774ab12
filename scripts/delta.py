"""Delta Lake for the Spark that is installed, fetched from Maven Central; for tests and trials.

    python -m scripts.delta    # what `spark-submit` needs to be told

Needs Maven; run it with the Python that has PySpark.
"""
# ruff: noqa: INP001 - a script

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from scripts.maven import SCALA, Unavailable, fetched, not_brought, pyspark

DELTA = "4.4.0"
SPARKS = ("4.1", "4.2")
"""What this Delta is made for; any other Spark is given what is made for the last of them."""


def own_spark() -> str:
    """Of those, the one whose Delta is taken."""
    installed = ".".join(pyspark().split(".")[:2])
    return installed if installed in SPARKS else SPARKS[-1]


def jars() -> list[Path]:
    """What Delta needs and PySpark does not bring."""
    made_for = own_spark()
    without = ("org.apache.spark", "org.apache.hadoop", "org.apache.parquet", "org.scala-lang")
    wanted = [("io.delta", f"delta-spark_{made_for}_{SCALA}", DELTA)]
    return not_brought(fetched(f"delta/delta-{DELTA}-spark-{made_for}", [wanted], without))


def arguments() -> list[str]:
    """What `spark-submit` needs to be told."""
    settings = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    told = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    return ["--jars", ",".join(map(str, jars())), *told]


def misfit(spark: Any, folder: Path) -> str | None:
    """What of Spark this Delta does not find as it was when Delta was compiled, by writing and reading a table; None if it fits."""
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - comes with PySpark

    try:
        spark.range(1).write.format("delta").mode("append").save(str(folder))
        spark.read.format("delta").load(str(folder)).collect()
    except Py4JJavaError as error:
        java: Any = spark._jvm  # noqa: SLF001 - Java's classes have no public name
        cause = error.java_exception
        while cause is not None:
            if java.java.lang.Class.forName("java.lang.LinkageError").isInstance(cause):
                where = cause.getStackTrace()[0]
                return f"Delta {DELTA} for Spark {own_spark()} does not fit Spark {pyspark()}: {cause.toString()} at {where.toString()}"
            cause = cause.getCause()
        raise
    return None


def main() -> int:
    try:
        sys.stdout.write(" ".join(arguments()) + "\n")
    except Unavailable as reason:
        sys.stderr.write(f"{reason}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
