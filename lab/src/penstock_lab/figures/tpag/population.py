"""What TP-Ag says of populations, beside the truth: how many ticks there were, and what its intervals hold.

Every level is asked for (ε so large that any two ticks are enough), so that answers are of all ticks of a sector and nearly all of what
they say of those that expired is an estimate. The paper has no figure of this.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock_lab.figures.cacq.chart import Data, Sample, Sizes
from penstock_lab.figures.runner import Connect, Tell
from penstock_lab.figures.tp.load import Floats
from penstock_lab.figures.tpag.answers import PARTS, Truth
from penstock_lab.figures.tpag.runs import SAMPLED, STEPS, Day, budget, opened, pushed, true

COLUMNS = (
    "__subsets", "__population", "__sample",
    *(f"{name}__{end}" for name in ("price", "ticks", "total") for end in ("low", "high")),
)  # fmt: skip
ANY = 1e9
"""So far off a mean may be."""
SEED = 500
UNSAID = 8
"""Windows at the end that are not told yet."""


def measure(sizes: Sizes, tell: Tell, connect: Connect) -> Data:
    """`sizes.xs` are loads in per cent of the capacity, `sizes.rows` seconds. The value is what is said of the truth, in per cent."""
    samples = []
    for load in sizes.xs:
        tell(f"load {load / 100:g}")
        days = [Day(seconds=float(sizes.rows), seed=SEED + n) for n in range(sizes.turns)]
        found = [_compared(true(day, connect), _said(day, load / 100, connect)) for day in days]
        more: dict[str, float | None] = {
            name: float(np.mean([one[name] for one in found])) for name in found[0] if name != "said"
        }
        samples.append(Sample(SAMPLED, load / 100, tuple(one["said"] for one in found), more))
    return Data(samples)


def _said(day: Day, load: float, connect: Connect) -> Floats:
    """[windows × sectors × columns]."""
    has = budget(day, load, connect)
    text = day.text(round(STEPS * has.lasts), counted=False)
    text = text.replace("AS price", "AS price, COUNT(*) AS ticks, SUM(S.price) AS total", 1)
    options: dict[str, Any] = {"allocation": "promote", "sampling_error": ANY}
    session, query = opened(text, connect, budget=has.given, **options)
    sheet = day.sheet(*COLUMNS)
    for _ in pushed(session, day.feed, day.step):
        sheet.take(query.changes())
    return sheet.values[:-UNSAID]


def _compared(truth: Truth, said: Floats) -> dict[str, float]:
    flag, population, sample = np.moveaxis(said[..., :3], -1, 0)
    given = ~np.isnan(population)
    used = (np.nan_to_num(flag).astype(np.int64)[..., None] >> np.arange(PARTS)) & 1
    count, total = ((part[: len(said)] * used).sum(axis=-1) for part in (truth.counts, truth.totals))
    mean = total / np.maximum(count, 1)
    partly = given & (sample < count)

    def held(at: int, real: Floats) -> float:
        low, high = said[..., at], said[..., at + 1]
        slack = 1e-9 * np.abs(real)
        return float(100 * ((low - slack <= real) & (real <= high + slack))[partly].mean())

    off = np.abs(population - count)[given].sum() / (count - sample)[given].sum()
    return {
        "said": float(100 * population[given].sum() / count[given].sum()),
        "off": float(100 * off),
        "means_held": held(3, mean),
        "counts_held": held(5, count),
        "sums_held": held(7, total),
        "partial_answers": float(partly.sum()),
    }
