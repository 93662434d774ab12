"""A Spark whose driver is this process, set up for flows of small steps."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import StateError
from penstock.kernels.warm_mark import is_warm
from penstock.spark.java import use_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    # Spark matches texts with recursive patterns; its stream thread was seen to run out of the usual stack.
    "spark.driver.extraJavaOptions": "-Xss16m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",  # a step's exchange is laid out already
    "spark.sql.session.timeZone": "UTC",
    "spark.shuffle.compress": "false",  # it goes no further than this machine's page cache
    # Rows to and from Python: over TCP a small batch waits 40 ms for an acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    # Renaming instead of asking for atomic creation: 264 → 118 ms a batch on a local disk.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # Spark's list of files read is written anew with every tenth batch and has all of them; of old ones ten minutes' worth would stay.
    "spark.sql.streaming.fileSource.log.cleanupDelay": "60s",
}
HERE = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
"""If all executors are on this machine; otherwise Spark finds out by which name they reach the driver."""


def local_spark(
    master: str | None = None,
    name: str = "penstock",
    settings: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> SparkSession:
    """Spark in local mode, or on the cluster of `master`, with more settings if given; needs Java 17 or newer.

    What Spark's Java process writes to standard error, its start-up warnings first, goes to `log` if that is given.
    """
    try:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise StateError("PySpark is not installed", hint="pip install 'penstock[spark]'") from error
    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    warnings.filterwarnings("ignore", message=".*pandas.*", module="pyspark")
    master = master or "local[*,4]"
    builder = SparkSession.builder.master(master).appName(name)
    here = master.startswith("local") or "//127.0.0.1:" in master
    for key, value in {**SETTINGS, **(HERE if here else {}), **(settings or {})}.items():
        builder = builder.config(key, value)
    try:
        with _stderr_to(log):
            made = builder.getOrCreate()
            made.conf.set("spark.sql.shuffle.partitions", str(made.sparkContext.defaultParallelism))
            made.sparkContext.setLogLevel("OFF")
    except (PySparkException, Py4JError) as error:
        said = "" if log is None else "\n" + log.read_text(errors="replace")[-2000:].strip()
        raise StateError(f"Spark does not start: {error}{said}") from error
    return made


def use_this_python(spark: SparkSession) -> None:
    """In local mode workers run this interpreter, unless another was chosen: Spark would take `python3` from PATH."""
    context = spark.sparkContext
    chosen = os.environ.get("PYSPARK_PYTHON") or context.getConf().get("spark.pyspark.python")
    if str(context.master).startswith("local") and not chosen:
        context.pythonExec = sys.executable


_said_cold = False


def do_not_say_cold() -> None:
    """The caller has compiled what its flow needs."""
    global _said_cold  # noqa: PLW0603 - of this process
    _said_cold = True


def say_if_cold(spark: SparkSession) -> None:
    """Worker processes write to logs of their own: a user who waits for them to compile sees nothing else."""
    global _said_cold  # noqa: PLW0603 - once in a process
    if not _said_cold and str(spark.sparkContext.master).startswith("local") and not is_warm():
        _said_cold = True
        sys.stderr.write(
            "penstock: worker processes compile kernels that this machine has not used yet, so the first steps may"
            " take half a minute; `penstock warm` compiles them all, once\n"
        )
        sys.stderr.flush()


@contextlib.contextmanager
def _stderr_to(log: Path | None) -> Iterator[None]:
    """Processes started meanwhile write their standard error to a file, for as long as they live."""
    if log is None:
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
