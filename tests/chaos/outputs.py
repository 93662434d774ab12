"""What the sinks of the job hold in the end, against what an undisturbed engine says."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyarrow import orc

from .job import FORMATS

Rows = Counter[tuple[Any, ...]]

_READERS: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
    "parquet": lambda place: pq.read_table(place).to_pylist(),
    "orc": lambda place: orc.read_table(place).to_pylist(),
    "json": lambda place: [json.loads(line) for line in place.read_text().splitlines()],
}


def changes(out: Path, name: str, columns: list[str]) -> Rows:
    """All changes in the files of a query."""
    kind = FORMATS.get(name, "parquet")
    got: Rows = Counter()
    for place in sorted((out / name).glob(f"step-*.{kind}")):
        got.update(tuple(row.get(column) for column in columns) for row in _READERS[kind](place))
    return got


def view(folder: Path) -> Rows:
    """The answer that a view's directory holds."""
    return Counter(tuple(row.values()) for row in pq.read_table(folder / "current.parquet").to_pylist())


def alive(told: list[dict[str, Any]], at: int) -> Rows:
    """The answer at an instant, from all changes: a '-' repeats the end of the row that it takes back."""
    found: Rows = Counter()
    for row in told:
        begins, ends, *values = (row[c] for c in row if c != "__op")
        if begins <= at and (ends is None or at < ends):
            found[tuple(values)] += 1 if row["__op"] == "+" else -1
    return +found


def differences(name: str, expected: Rows, got: Rows) -> list[str]:
    lost, more = expected - got, got - expected
    if not lost and not more:
        return []
    example = next(iter(lost or more))
    return [f"{name}: {lost.total()} lost, {more.total()} too many, e.g. {example}"]
