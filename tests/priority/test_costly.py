"""However costly criteria are: as many important results as if they were evaluated first, or last, everywhere, or not at all."""

from __future__ import annotations

import pytest

from penstock.flow.promote import Promote

from .costly import LOADS, First, Last, Never, told

SHORT = ("rows meet few", "rows meet many, nearly time to ask all", "rows meet many, time to ask all")
BEGINNING = 0.95
"""Until it has measured what rows take, promotion places nothing; the others are right from the beginning."""


@pytest.mark.parametrize("name", SHORT)
def test_promotion_is_not_behind_any_fixed_place(name: str) -> None:
    made = {one.__name__: told(LOADS[name], one) for one in (Promote, First, Last, Never)}
    assert made["Promote"] > 0
    assert made["Promote"] >= BEGINNING * max(made.values()), made
