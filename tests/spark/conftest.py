"""One Spark for all tests of a worker, in local mode, as small as it gets."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.spark.local import SETTINGS
from tests import needed


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    needed.java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    home: Path = tmp_path_factory.mktemp("spark")
    made = (
        SparkSession.builder.master("local[2]")
        .appName("penstock tests")
        .config("spark.driver.extraJavaOptions", "-Xss16m")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("OFF")
    # Spark looks for its warehouse once: not while a test has another file system.
    made.catalog.databaseExists("default")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def quick(spark: SparkSession) -> SparkSession:
    """The same Spark with checkpoints as Penstock's own sessions write them."""
    made = spark.newSession()
    for key in ("spark.sql.adaptive.enabled", "spark.sql.streaming.checkpointFileManagerClass"):
        made.conf.set(key, SETTINGS[key])
    return made
