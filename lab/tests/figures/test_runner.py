"""The runner on small windows: all executions of all queries agree, and a difference would be seen."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

import penstock
from penstock.errors import StateError
from penstock_lab.commands.figure import make
from penstock_lab.figures import draw, trace
from penstock_lab.figures.catalogue import FIGURES
from penstock_lab.figures.runner import PROBE, Extent, Run, Series, agree, measure

SMALL = Extent((400,), turns=2, units=800)


def silent(_: str) -> None:
    return None


@pytest.mark.parametrize("name", ["upa-9", "upa-10", "upa-11", "upa-12", "upa-15", "upa-16", "upa-17"])
def test_executions_agree_and_are_measured_on_the_same_rows(name: str) -> None:
    series = FIGURES[name].series
    found = measure(series, 400, SMALL, silent)
    assert [m.series for m in found] == list(series)
    assert len({(m.fed, m.results, m.taken_back) for m in found}) == 1
    for m in found:
        assert len(m.cpu) == len(m.reading) == SMALL.turns
        assert min(m.cpu) > 0 and m.visits > 0 and m.state_bytes > 0
        assert m.tuples == m.fed >= SMALL.turns * SMALL.units * 0.8
    (strict,) = {m.taken_back > 0 for m in found}
    assert strict is (name in ("upa-15", "upa-17"))


def test_an_execution_over_its_cap_is_timed_on_fewer_tuples_and_still_takes_all() -> None:
    extent = replace(SMALL, seconds=0.0)
    (found,) = measure([Series("UPA", "q2_source", "upa")], 60, extent, silent)
    assert found.tuples < 2 * PROBE * extent.turns < found.fed


def test_executions_that_differ_are_a_loud_error() -> None:
    rows = trace.make(200)
    runs = [Run(Series(q, q, "upa"), 60, SMALL, penstock.connect) for q in ("q2_source", "q3")]
    for run in runs:
        run.fill(rows, 200)
    with pytest.raises(StateError, match="q2_source and q3 differ at window 60: answers of"):
        agree(runs)
    more = [Run(Series(str(n), "q2_source", "upa"), 60, SMALL, penstock.connect) for n in (0, 100)]
    for run, start in zip(more, (0, 100), strict=True):
        run._apply(rows, start, 200)
    with pytest.raises(StateError, match=r"0 and 100 differ at window 60: .* results so far"):
        agree(more)


def test_files_and_verdicts_are_made_and_what_is_shared_is_measured_once(tmp_path: Path) -> None:
    told: list[str] = []
    figures = [FIGURES["upa-11"], FIGURES["upa-13"]]
    results = make(figures, replace(SMALL, windows=(40, 60)), tmp_path / "new", told.append)
    assert not any(t.startswith("upa-13") for t in told)
    assert [r["name"] for r in json.loads(json.dumps(results))] == ["upa-11", "upa-13"]
    for result in results:
        assert {"name", "claim", "measured", "reference", "holds", "verdict"} == set(result)
        path = tmp_path / "new" / result["name"]
        assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
        with path.with_suffix(".csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert tuple(rows[0]) == draw.COLUMNS
        assert [(r["series"], int(r["window"])) for r in rows] == [
            (s.name, w) for w in (40, 60) for s in figures[0].series
        ]
        assert all(float(r["cpu_ms_per_1000_tuples"]) > 0 for r in rows)
