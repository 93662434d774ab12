"""How `penstock bench spark-join` looks for Spark's best setting, and what it says of results that differ."""

from __future__ import annotations

import random

from penstock_lab.benchmarks.spark import native
from penstock_lab.benchmarks.spark.join import FULL, QUICK, differences
from penstock_lab.benchmarks.spark.successive_halving import Round, fastest


def test_the_fastest_setting_is_found_and_all_are_told() -> None:
    """With one setting far ahead of what noise can do, it wins; who has half its pace or less is measured once."""
    for seed in range(50):
        chance = random.Random(seed)
        true = {name: chance.uniform(10, 80) for name in range(18)}
        best = chance.randrange(18)
        true[best] = 100.0
        asked: list[tuple[int, int]] = []

        def measured(
            setting: int, batches: int, true: dict[int, float] = true, asked: list[tuple[int, int]] = asked
        ) -> float:
            asked.append((setting, batches))
            return true[setting] * random.Random(f"{setting} {batches}").uniform(0.95, 1.05)

        rounds = (Round(1, 5), Round(2, 3), Round(3, 1))
        found = fastest(true, measured, rounds)
        assert found[0].setting == best
        assert sorted(t.setting for t in found) == sorted(true), "each is told once"
        assert [t.rounds for t in found] == sorted((t.rounds for t in found), reverse=True)
        assert all((t.setting, 2) not in asked for t in found if true[t.setting] < 45)
        assert [batches for _, batches in asked].count(2) <= 5
        assert [batches for _, batches in asked].count(3) <= 3


def test_extents_try_what_they_name() -> None:
    for extent in (QUICK, FULL):
        assert len(set(extent.settings)) == len(extent.settings)
        assert {s.store for s in extent.settings} <= native.STORES.keys()
    assert {s.store for s in FULL.settings} == native.STORES.keys()
    assert set(QUICK.settings) <= set(FULL.settings)


def test_results_that_differ_or_are_missing_are_told() -> None:
    same = {"rows": 3, "x": 12}
    assert differences(same, dict(same)) == []
    assert "differ" in differences(same, {"rows": 3, "x": 13})[0]
    assert "no results" in differences({"rows": 0}, {"rows": 0})[0]
    assert "no results" in differences({}, {})[0]
