"""Times that come as whole numbers: in a declared unit, else refused when they look like another one."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import penstock
from penstock.cli.main import app

WHEN = dt.datetime(2023, 11, 14, 22, 13, 20)
SECONDS = 1_700_000_000
UNITS = {"SECONDS": 1, "MILLISECONDS": 1_000, "MICROSECONDS": 1_000_000}


def connected(clause: str) -> penstock.Session:
    session = penstock.connect()
    session.execute(f"CREATE STREAM a (ts TIMESTAMP, x INT) WATERMARK ts DELAY OF INTERVAL 0 {clause}")
    return session


def forms(number: int) -> list[Any]:
    return [
        [{"ts": number, "x": 1}],
        {"ts": [number], "x": [1]},
        {"ts": np.array([number]), "x": np.array([1], np.int32)},
        pa.table({"ts": [number], "x": pa.array([1], pa.int32())}),
        pd.DataFrame({"ts": [number], "x": [1]}),
    ]


@pytest.mark.parametrize("unit", UNITS)
def test_numbers_count_the_declared_unit(unit: str) -> None:
    for rows in [*forms(SECONDS * UNITS[unit]), [{"ts": WHEN, "x": 1}]]:
        session = connected(f"UNIT {unit}")
        query = session.query("SELECT ts FROM a [RANGE 1 SECOND]")
        session.push("a", rows)
        session.advance(WHEN)
        assert query.snapshot().column("ts").to_pylist() == [WHEN]


def test_without_a_unit_numbers_are_refused_and_the_hint_says_what_works() -> None:
    for rows in forms(SECONDS * 1000):
        session = connected("")
        with pytest.raises(penstock.DataError, match=r"column ts.*UNIT MILLISECONDS"):
            session.push("a", rows)


def test_numbers_outside_the_calendar_are_refused() -> None:
    session = connected("UNIT SECONDS")
    with pytest.raises(
        penstock.DataError, match=r"row 0, column ts: .* outside the years 1 to 9999; check the UNIT"
    ):
        session.push("a", [{"ts": SECONDS * 1000, "x": 1}])
    with pytest.raises(penstock.DataError, match="NULL in the time column"):
        session.push("a", [{"ts": None, "x": 1}])


def run(folder: Path, clause: str, number: int) -> Any:
    script, rows = folder / "q.sql", folder / "a.jsonl"
    script.write_text(
        f"CREATE STREAM a (ts TIMESTAMP, x INT) WATERMARK ts DELAY OF INTERVAL 0 {clause};"
        "CREATE QUERY q AS SELECT ts, x FROM a [RANGE 1 SECOND];"
    )
    rows.write_text(json.dumps({"ts": number, "x": 1}) + "\n")
    return CliRunner().invoke(app, ["run", str(script), "--input", f"a={rows}"])


def test_json_lines_count_the_declared_unit(tmp_path: Path) -> None:
    told = run(tmp_path, "UNIT MILLISECONDS", SECONDS * 1000)
    assert told.exit_code == 0, told.output
    assert "2023-11-14" in told.output


@pytest.mark.parametrize("number", [SECONDS, SECONDS * 1000])
def test_json_lines_without_a_unit_refuse_unlikely_numbers(tmp_path: Path, number: int) -> None:
    told = run(tmp_path, "", number)
    assert told.exit_code == 1
    assert isinstance(told.exception, penstock.DataError)
    assert "not a likely time" in str(told.exception)
    assert "UNIT MILLISECONDS" in str(told.exception)


def test_json_lines_take_microseconds_as_before(tmp_path: Path) -> None:
    told = run(tmp_path, "", SECONDS * 1_000_000)
    assert told.exit_code == 0, told.output
    assert "2023-11-14" in told.output
