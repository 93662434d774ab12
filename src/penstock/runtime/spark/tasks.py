"""How Spark repeats the tasks of a job."""

from __future__ import annotations

import re
import time

from pyspark.sql import SparkSession

from penstock.errors import StateError

PATIENCE = 120.0
"""Seconds that tasks may take to end after their job has."""


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
