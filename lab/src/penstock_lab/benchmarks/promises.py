"""`penstock bench promises`: what it brings that cells tell each other which values promise (decision 024).

Query     `a.k = b.k AND b.g = c.g AND b.h = c.h`, where a alone has ranks: which (g, h) its important rows come to is learnt in the cell that
          joins them with b, while rows of c with these come to other cells, too.
Load      steady, several times what cells have units for; after a third other values of (g, h) come, so that all is learnt anew.
Compared  results of rank 1, seeds together, by the number of cells: merged, and every cell for itself. A cell has the same budget in both;
          all that is told must be part of what there is without one. The clock is virtual: a run is the same whenever it is repeated.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

import penstock
from penstock.plan.policies import Policies
from penstock.testing.local_cells import Cells
from penstock_lab.benchmarks.points import Point
from penstock_lab.benchmarks.report import Tell

CELLS = (2, 4, 6)
NO_FEWER = 0.97
"""Of the results of rank 1 without merging, over all numbers of cells: of one of them with two seeds 0.95 to 1.06 were seen, either way."""
NAME = "results of rank 1, merged against every cell for itself"
STEPS, STEP = 24, 100
KEYS, GROUPS = 24, 60
COMING = {"a": 4, "b": 20, "c": 120}
"""Rows a step."""
BUDGET = 200
"""Units a step of all cells together; a cell has its part."""
LIFESPAN = 4
"""Steps."""
SEED = 2013
QUERY = """
SELECT a.ts AS i, b.ts AS j, c.ts AS l, b.g AS g FROM a [RANGE 1000], b [RANGE 1000], c [RANGE 1000]
WHERE a.k = b.k AND b.g = c.g AND b.h = c.h LIFESPAN {} RANK 1 CRITERIA (a.r = 1) RANK 2 CRITERIA (a.r = 2)
"""


def bench(*, quick: bool, tell: Tell) -> dict[str, Any]:
    """The JSON object of the command line."""
    seeds = range(SEED, SEED + (2 if quick else 6))
    measured: dict[str, Any] = {}
    reference: dict[str, Any] = {}
    everything = {seed: told(seed, 0, merges=True) for seed in seeds}
    there = sum(map(_first, everything.values()))
    totals = {True: 0, False: 0}
    for cells in CELLS:
        tell(f"{cells} cells")
        counts = {True: 0, False: 0}
        for seed, merges in product(seeds, (True, False)):
            found = told(seed, cells, merges=merges)
            assert not found - everything[seed], "what is told is part of what there is"
            counts[merges] += _first(found)
        measured[f"{cells} cells"] = {"rank_1": counts[True], "there_are": there}
        reference[f"{cells} cells"] = {"every cell for itself": counts[False]}
        totals = {merges: totals[merges] + counts[merges] for merges in totals}
    point = Point(NAME, totals[True] / max(totals[False], 1), NO_FEWER, "×", at_least=True)
    measured["all together"] = {"rank_1": totals[True], "points": {NAME: point.json()}}
    reference["all together"] = {"every cell for itself": totals[False]}
    return {
        "name": "promises",
        "claim": f"cells that tell each other which values promise tell no fewer results of rank 1 (at least {100 * NO_FEWER:g} %)",
        "measured": measured,
        "reference": reference,
        "holds": point.holds,
        "why_not": [] if point.holds else [point.failure()],
    }


def _first(found: Counter[tuple[Any, ...]]) -> int:
    return sum(n for (*_, rank), n in found.items() if rank == 1)


def told(seed: int, cells: int, *, merges: bool) -> Counter[tuple[Any, ...]]:
    """What is told; `cells` 0: of a session without a budget."""
    session = penstock.connect()
    units = BUDGET // max(cells, 1)
    if cells:
        made = Cells(session.catalog, cells, policies=Policies(budget=units, allocation="prefer"))
        made.lower.merges = merges
        session.engine = made  # type: ignore[assignment]
    for name in COMING:
        session.execute(
            f"CREATE STREAM {name} (ts BIGINT, k INT, g STRING, h INT, r INT) WATERMARK ts DELAY OF INTERVAL 0"
        )
    query = session.query(QUERY.format(LIFESPAN * units), name="q")
    said: Counter[tuple[Any, ...]] = Counter()
    for step in range(STEPS):
        for name, rows in _rows(seed, step).items():
            session.push(name, rows)
        session.advance(STEP * (step + 1) - 1)
        said.update(
            tuple(row.values()) for row in query.changes().select(["i", "j", "l", "g", "__rank"]).to_pylist()
        )
    return said


def _rows(seed: int, step: int) -> dict[str, pa.Table]:
    drawn = np.random.default_rng((seed, step))
    first = 0 if step < STEPS // 3 else GROUPS
    made = {}
    for name, n in COMING.items():
        group = first + drawn.integers(0, GROUPS, n)
        made[name] = pa.table(
            {
                "ts": np.sort(drawn.integers(STEP * step, STEP * (step + 1), n)),
                "k": drawn.integers(0, KEYS, n).astype("i4"),
                "g": [f"group {one // 4}" for one in group],
                "h": (group % 4).astype("i4"),
                "r": drawn.integers(1, 13, n).astype("i4"),
            }
        )
    return made
