"""A default local Spark: workers run this Python, and a wait for the compiler is announced."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.spark import local


def test_workers_run_this_python_unless_another_was_chosen(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark itself takes `python3` from PATH, which without an activated environment is another one."""
    context = spark.sparkContext
    monkeypatch.setattr(context, "pythonExec", "/nowhere/python3")
    penstock.connect(spark, checkpoint=str(tmp_path / "chosen"))  # PYSPARK_PYTHON is set for tests
    assert context.pythonExec == "/nowhere/python3"
    monkeypatch.delenv("PYSPARK_PYTHON")
    penstock.connect(spark, checkpoint=str(tmp_path / "free"))
    assert context.pythonExec == sys.executable
    assert spark.range(3).mapInArrow(lambda batches: batches, "id BIGINT").count() == 3


def test_a_cold_machine_is_told_once_why_the_first_steps_take_long(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local, "_said_cold", False)
    monkeypatch.setattr(local, "is_warm", lambda: True)
    local.say_if_cold(spark)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(local, "is_warm", lambda: False)
    local.say_if_cold(spark)
    local.say_if_cold(spark)
    (line,) = capsys.readouterr().err.splitlines()
    assert "`penstock warm` compiles them all" in line
    monkeypatch.setattr(local, "_said_cold", False)
    local.do_not_say_cold()
    local.say_if_cold(spark)
    assert capsys.readouterr().err == ""
