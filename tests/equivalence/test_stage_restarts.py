"""Cells of both stages leave as files and come back, each on its own, as if nothing had been."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from penstock.durability.snapshot import dump, read, restore, write
from penstock.engine.engine import Engine
from penstock.plan.catalog import Catalog
from penstock.testing.local_cells import Cells
from tests.equivalence.test_cells import cut_anywhere, told
from tests.oracle import case as cases
from tests.oracle.check import Mismatch
from tests.oracle.trace import Cut, record

CASES = int(os.environ.get("PENSTOCK_CASES", "600")) // 6
BLOCK = 10


class Restarting(Cells):
    """Cells of which, before time passes, some are taken out through a file and in again."""

    def __init__(self, catalog: Catalog, path: Path, rng: random.Random) -> None:
        super().__init__(catalog, 3, placing=cut_anywhere)
        self._path = path
        self._rng = rng
        self.restarts = [0, 0]

    def _rise(self, clock: int) -> None:
        for number, stage in enumerate((self.lower, self.upper)):
            for cell, engine in enumerate(stage.engines):
                if engine.queries and self._rng.random() < 0.3:
                    stage.engines[cell] = self._again(engine)
                    self.restarts[number] += 1
        super()._rise(clock)

    def _again(self, engine: Engine) -> Engine:
        write(dump(engine), self._path)
        streams = {name: source.stream for name, source in engine.sources.items()}
        tables = {name: table.table for name, table in engine.tables.items()}
        queries = [(q.name, q.root, True if q.answer.kept else None) for q in engine.queries.values()]
        return restore(Catalog(streams, tables, self.catalog.functions), queries, read(self._path))


@pytest.mark.parametrize("first", range(95_000, 95_000 + CASES, BLOCK))
def test_a_restart_of_a_stage_changes_nothing(first: int, tmp_path: Path) -> None:
    made: list[Restarting] = []

    def restarting(catalog: Catalog) -> Restarting:
        made.append(Restarting(catalog, tmp_path / "state", random.Random(first + len(made))))
        return made[-1]

    for seed in range(first, first + BLOCK):
        case = cases.make(seed)
        one = record(case, Cut("random", seed))
        found = told(case, one, record(case, Cut("random", seed), engine=restarting))
        if found:
            pytest.fail(str(Mismatch(f"a restart differs from going on\n{found}", case)), pytrace=False)
    lower, upper = (sum(cells.restarts[stage] for cells in made) for stage in (0, 1))
    print(f"{lower} restarts in the first stage, {upper} in the second")
    assert upper > 10
