"""However costly criteria are: as many important results as if they were evaluated first, or last, everywhere, or not at all."""

from __future__ import annotations

import pytest

import penstock
from penstock_lab.figures.cacq.chart import Data, Sample
from penstock_lab.figures.cacq.judge import judge
from penstock_lab.figures.pp.costly import BEHIND, CHART, LOADS, WAYS, told

SHORT = ("rows meet few", "rows meet many, nearly time to ask all", "rows meet many, time to ask all")


@pytest.mark.parametrize("name", SHORT)
def test_promotion_is_not_behind_any_fixed_place(name: str) -> None:
    """Nor is it at the beginning, when nothing has been measured yet."""
    for steps in (12, 80):
        made = {way: told(LOADS[name], kind, penstock.connect, steps) for way, kind in WAYS.items()}
        assert made["promote"] > 0
        assert made["promote"] >= BEHIND * max(made.values()), made


def test_the_figure_says_so() -> None:
    for own, holds in ((100.0, True), (99.0, False)):
        values = dict(zip(WAYS, (own, 100.0, 10.0, 20.0), strict=True))
        data = Data([Sample(way, 0, (value,), {"without_limit": 200}) for way, value in values.items()])
        assert judge(CHART, data)["holds"] is holds
