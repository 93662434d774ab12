"""The benchmark harness on small data: engine and hand-written programs agree, and a difference would be seen."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock_lab.benchmarks import pairs, report, runs
from penstock_lab.benchmarks.cases import BENCHES, Case

CASES = [case for make in BENCHES.values() for case in make()]
SMALL: dict[str, Any] = {"events": 3000, "window": 200, "x_keys": 40, "y_keys": 300}


def silent(_: str) -> None:
    return None


@pytest.mark.parametrize("batch", [7, 1000])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_engine_gives_what_the_hand_written_program_gives(case: Case, batch: int) -> None:
    small = case.with_(**SMALL, batch=batch)
    work = small.work()
    limit = runs.hand_written(small.program, work).checksum
    assert limit.rows > 50
    assert runs.engine(small, work).checksum.difference(limit) is None


@pytest.mark.parametrize("case", [c for c in CASES if c.elsewhere], ids=lambda c: c.name)
def test_datafusion_runs_the_query_unbounded(case: Case) -> None:
    small = case.with_(**SMALL)
    work = small.work()
    other = runs.DataFusion(small, work)
    assert "infinite_source=true" in other.plan()
    _, rows = other.run()
    other.close()
    arrivals_only = case.name == "sliding-aggregate"
    assert rows == (work.events if arrivals_only else runs.hand_written(small.program, work).checksum.rows)


def test_a_wrong_answer_does_not_hold() -> None:
    case = CASES[0].with_(**SMALL)

    def forgetful(work: Any) -> Any:
        program = CASES[0].program(work)

        def step(rows: Any) -> list[pa.Table]:
            return [t.slice(1) for t in program(rows)]

        return step

    _, _, failures = report.compare(case.with_(program=forgetful), repeat=1, datafusion=False, tell=silent)
    assert any("differ" in f for f in failures)


def test_auto_is_held_against_every_fixed_plan_and_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict goes by runs next to each other: an `auto` that takes three times as long does not hold."""
    case = next(c for c in CASES if c.orders).with_(**SMALL)
    seen: list[dict[str, Any]] = []
    whole = runs.engine

    def engine(case: Case, work: Any, **options: Any) -> runs.Run:
        seen.append(options)
        done = whole(case, work, **options)
        done.seconds = 1e-9 * work.events * (3 if not options else 2 if options["join"] == "tree" else 1)
        return done

    monkeypatch.setattr(runs, "engine", engine)
    point = pairs.fixed_pairs(case, 1)
    plans = [{"join": "mjoin"}, {"join": "eddy"}, *({"join": "tree", "tree": t} for _, t in case.trees)]
    assert len(case.trees) == 2
    assert all({**plan, "demand": demand} in seen for plan in plans for demand in pairs.DEMANDS)
    assert (point.value, point.holds) == (3.0, False)
    assert sum(name.startswith("auto_") and name.endswith("_ns") for name in point.more) == 4
