"""How Spark repeats the tasks of a job, and what is done where it does not."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import TypeVar

from pyspark.sql import SparkSession

from penstock.errors import StateError

_LOG = logging.getLogger("penstock")
PATIENCE = 120.0
"""Seconds that tasks may take to end after their job has."""
ATTEMPTS = 3
"""How often a job is run whose Python workers die."""
WORKER_DIED = "Python worker exited unexpectedly"
"""In the error of a job that failed because a Python worker did."""

T = TypeVar("T")


def run_again_if_worker_died(spark: SparkSession, what: str, job: Callable[[], T]) -> T:
    """Run a job, and again if a Python worker died on the way and Spark does not repeat tasks, as in `local[*]`.

    A job that is run again must end as if it had been run once. No task of the failed run is left when the next begins.
    """
    left = ATTEMPTS if task_failures(spark) == 1 else 1
    while True:
        left -= 1
        try:
            return job()
        except Exception as error:
            if WORKER_DIED not in str(error):
                raise
            if not left:
                raise StateError(
                    f"{what} cannot be completed: Python workers of Spark's die again and again",
                    hint="see Spark's log, and whether the machine has memory left",
                ) from error
        _LOG.warning("a Python worker of Spark's died; %s is run again", what)
        wait_for_tasks(spark)


def task_failures(spark: SparkSession) -> int:
    """How often a task may fail before its job does; 1: tasks are not repeated."""
    context = spark.sparkContext
    master = str(context.master)
    told = re.fullmatch(r"local\[[^,\]]+,\s*(\d+)\s*\]", master)
    if told:
        return int(told[1])
    if re.fullmatch(r"local(\[[^,\]]+\])?", master):
        return 1
    return int(context.getConf().get("spark.task.maxFailures", "4"))


def runs_here(spark: SparkSession) -> bool:
    """Whether tasks run in the driver's own Java process."""
    return re.fullmatch(r"local(\[[^\]]*\])?", str(spark.sparkContext.master)) is not None


def spark_process(spark: SparkSession) -> int:
    """The driver's Java process."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    return int(jvm.java.lang.ProcessHandle.current().pid())


def wait_for_tasks(spark: SparkSession) -> None:
    """Wait until no task of this thread's last job runs: a job ends before attempts that it gave up."""
    context = spark.sparkContext
    tracker = context.statusTracker()
    jobs = tracker.getJobIdsForGroup(context.getLocalProperty("spark.jobGroup.id"))
    job = tracker.getJobInfo(max(jobs)) if jobs else None
    until = time.monotonic() + PATIENCE
    for stage in job.stageIds if job is not None else []:
        while (found := tracker.getStageInfo(stage)) is not None and found.numActiveTasks:
            if time.monotonic() > until:
                raise StateError(
                    f"tasks of stage {stage} do not end", hint="start the flow again once they have"
                )
            time.sleep(0.05)
