"""At any instant the answer of a tree is DuckDB's over the rows alive then; of walks, see `test_walks`."""

from __future__ import annotations

import re
from collections.abc import Iterator

import duckdb
import pandas as pd
import pytest

from tests.demand.drawn import Case, make, push, session


def alive(case: Case, clock: int) -> list[tuple[int, ...]]:
    """By DuckDB: every input is a view of its stream's rows in its window."""
    with duckdb.connect() as db:
        names = sorted({name for name, _ in case.rows} | set(re.findall(r"STREAM (s\d+)", case.ddl)))
        for name in names:
            columns = re.search(rf"STREAM {name} \((.*?)\) WATERMARK", case.ddl).group(1)
            db.execute(f"CREATE TABLE {name} ({columns.replace('STRING', 'VARCHAR')})")
            rows = [row for stream, row in case.rows if stream == name]
            if rows:
                frame = pd.DataFrame(rows).convert_dtypes()
                db.execute(f"INSERT INTO {name} BY NAME SELECT * FROM frame")
                assert len(frame) == len(rows)
        text = case.query
        for window in re.findall(r"(s\d+) \[(?:RANGE (\d+)|UNBOUNDED)\]", case.query):
            name, length = window
            until = f"AND ts + {length} > {clock}" if length else ""
            shown = f"{name} [{f'RANGE {length}' if length else 'UNBOUNDED'}]"
            text = text.replace(shown, f"(SELECT * FROM {name} WHERE ts <= {clock} {until})")
        return sorted(db.execute(text).fetchall())


def snapshots(case: Case, **options: str) -> Iterator[tuple[int, list[tuple[int, ...]]]]:
    """By the engine, at a few instants."""
    made = session(case, **options)
    query = made.query(case.query, keep=True)
    ahead = sorted(case.rows, key=lambda one: one[1]["ts"])
    times = sorted({row["ts"] for _, row in ahead})
    for clock in times[:: max(len(times) // 4, 1)]:
        push(made, [one for one in ahead if one[1]["ts"] <= clock])
        ahead = [one for one in ahead if one[1]["ts"] > clock]
        made.advance(clock)
        yield clock, sorted(tuple(row.values()) for row in query.snapshot().to_pylist())


@pytest.mark.parametrize("demand", ["off", "doe", "jit"])
def test_snapshots_are_duckdb_s(demand: str) -> None:
    found = 0
    for seed in range(930_000, 930_010):
        case = make(seed, 3 + seed % 3)
        for clock, got in snapshots(case, join="tree", tree="bushy", demand=demand):
            assert got == alive(case, clock), f"{case} at {clock}"
            found += len(got)
    assert found > 100
