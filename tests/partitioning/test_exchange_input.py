"""The window of an inner input: rows of several cells in, changes of one edge out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.partitioning.test_placement import rooted

from penstock.durability.snapshot import dump, read, restore, write
from penstock.engine.engine import Engine
from penstock.ingest.convert import read_rows
from penstock.operators.windows import AnnouncedWindow
from penstock.partitioning.stages import stages
from penstock.plan.catalog import Catalog
from penstock.types.batch import Batch, Column
from penstock.types.event_time import FOREVER

Change = tuple[int, int | None, str, float | None]
"""ts, exp, sign, value."""


def stepped(rows: list[Change]) -> list[Change]:
    ts, exp, sign, value = zip(*rows, strict=True) if rows else ((), (), (), ())
    columns = (
        Column(np.array(ts, np.int64)),
        Column(
            np.array([0 if e is None else e for e in exp], np.int64),
            np.array([e is not None for e in exp], np.bool_),
        ),
        Column(np.array([1 if s == "+" else -1 for s in sign], np.int8)),
        Column(
            np.array([0.0 if v is None else v for v in value]),
            np.array([v is not None for v in value], np.bool_),
        ),
    )
    out = AnnouncedWindow().step([Batch(columns[0].values, columns[0].values, columns)], 100)
    signs = ["+"] * len(out) if out.sign is None else ["+" if s > 0 else "-" for s in out.sign]
    told = out.columns[3]
    valid = np.ones(len(out), np.bool_) if told.valid is None else told.valid
    return [
        (int(t), None if e == FOREVER else int(e), s, float(v) if there else None)
        for t, e, s, v, there in zip(out.ts, out.exp, signs, told.values, valid, strict=True)
    ]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], []),
        # Ends as announced, NULL for never.
        ([(1, 5, "+", 1.0), (2, None, "+", 2.0)], [(1, 5, "+", 1.0), (2, None, "+", 2.0)]),
        # Two cells, each in order; '-' first in an instant.
        ([(1, 9, "+", 1.0), (3, 9, "-", 1.0), (3, 9, "+", 2.0), (3, 9, "-", 4.0)],
         [(1, 9, "+", 1.0), (3, 9, "-", 1.0), (3, 9, "-", 4.0), (3, 9, "+", 2.0)]),
        # What goes in one cell and comes in another stays: operators of one engine see it too.
        ([(3, 9, "+", None), (3, 9, "-", None)], [(3, 9, "-", None), (3, 9, "+", None)]),
    ],
)  # fmt: skip
def test_rows_become_changes_again(rows: list[Change], expected: list[Change]) -> None:
    assert stepped(rows) == expected


COUNTS = "SELECT b.s, COUNT(*) AS n FROM a [RANGE 5], b [RANGE 5] WHERE a.x = b.x GROUP BY b.s"


def test_rows_wait_until_every_cell_below_has_passed_them(tmp_path: Path) -> None:
    """One cell below is at 9, the other at 3: the watermark is 4. What waits is there after a restart too."""
    found = stages(rooted(COUNTS), 8, "q")
    (one,) = found.upper.inputs
    schema = found.lower[0].stream.schema
    assert [f.name for f in schema] == ["__ts", "__exp", "__sign", "s"]

    def fed(engine: Engine, rows: list[tuple[int, int, int, str]], watermark: int) -> list[tuple[Any, ...]]:
        table = pa.table(dict(zip((f.name for f in schema), zip(*rows, strict=True), strict=True)))
        engine.push(one.name.lower(), read_rows(table, schema, engine.strings))
        engine.raise_watermarks({one.name.lower(): watermark})
        return [tuple(change.values()) for change in engine.queries["q"].answer.changes().to_pylist()]

    engine = Engine(Catalog({one.name.lower(): one.declared}))
    for stream in engine.catalog.streams.values():
        engine.add_stream(stream)
    engine.register("q", found.upper.root, keep=True)
    fast = [(1, 6, 1, "u"), (2, 7, 1, "v"), (8, 13, 1, "u"), (9, 14, 1, "v")]
    assert fed(engine, [*fast, (1, 5, 1, "u")], 4) == [("+", 1, 5, "u", 2), ("+", 2, 7, "v", 1)]
    write(dump(engine), tmp_path / "state")
    again = restore(engine.catalog, [("q", found.upper.root, True)], read(tmp_path / "state"))
    for going in (engine, again):
        assert fed(going, [(4, 9, 1, "v"), (8, 12, 1, "u")], 10) == [
            ("+", 4, 7, "v", 2),
            ("+", 5, 6, "u", 1),
            ("+", 7, 9, "v", 1),
            ("+", 8, 12, "u", 2),
            ("+", 9, 14, "v", 1),
        ]
