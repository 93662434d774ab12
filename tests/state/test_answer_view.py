"""The kept answer against a list of rows, where batches are large enough to stay as they are until they are over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.plan.edge import Edge
from penstock.plan.state_upkeep import Upkeep
from penstock.plan.update_pattern import Pattern
from penstock.state import answer_view as views
from penstock.types import sizes
from penstock.types.batch import Batch, Column
from penstock.types.data_type import Type


@pytest.mark.parametrize("large", [1, 8, 1 << 12])
@pytest.mark.parametrize("seed", range(4))
def test_batches_are_let_go_of_and_rows_are_not(
    large: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "current", replace(sizes.DEFAULT, view_batch_rows=large, view_rows=32))
    random = np.random.default_rng(seed)
    kept = views.View([Type.INT], Edge(Pattern.WEAK), Upkeep())
    rows: list[tuple[int, int]] = []
    now, most = 0, 0
    for number in range(200):
        n = int(random.integers(1, 30))
        now += int(random.integers(1, 10))
        exps = now + random.integers(1, 40 if seed % 2 else 200, n)
        values = np.arange(n, dtype=np.int32) + 1000 * number
        kept.add(Batch(np.full(n, now), exps, (Column(values),)), now)
        rows = [row for row in [*rows, *zip(exps.tolist(), values.tolist(), strict=True)] if row[0] > now]
        most = max(most, len(rows))
        assert len(kept) <= 32 + 30 + 4 * most
        if number % 7 == 0:
            found = kept.at(now)
            assert sorted(zip(found.exp.tolist(), found.columns[0].values.tolist(), strict=True)) == sorted(
                rows
            )
