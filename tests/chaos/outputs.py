"""What the sinks of the job hold in the end, against what an undisturbed engine returns."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyarrow import orc

from tests.chaos.job import ALL, FORMATS, TABLE, TABLE_VIEW, TOPIC, VIEW, WAREHOUSE

Rows = Counter[tuple[Any, ...]]

_READERS: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
    "parquet": lambda place: pq.read_table(place).to_pylist(),
    "orc": lambda place: orc.read_table(place).to_pylist(),
    "json": lambda place: [json.loads(line) for line in place.read_text().splitlines()],
}


def compared(out: Path, name: str, expected: list[dict[str, Any]], columns: list[str], at: int) -> list[str]:
    """How sinks of a query differ from what they should hold: all its changes, or its answer at an instant."""
    changes: Rows = Counter(tuple(row.values()) for row in expected)
    folder = out / WAREHOUSE / name if name == TABLE else out / name
    found = {name: _rows(_files(folder, FORMATS.get(name, "parquet")), columns)}
    found[f"{name} among all queries"] = _rows(
        (row for row in _files(out / ALL, "parquet") if row["__query"] == name), columns
    )
    if name == TOPIC and (out / "topic").exists():
        found[f"{name} in a topic"] = _rows(_messages(out / "topic"), columns)
    differ = [line for sink, rows in found.items() for line in differences(sink, changes, rows)]
    if name == VIEW:
        differ += differences(f"{name} now", alive(expected, at), view(out / f"{name}-now"))
    if name == TABLE_VIEW:
        shown = view(out / WAREHOUSE / f"{name}_now")
        differ += differences(f"{name} now in a table", alive(expected, at), shown)
    return differ


def _files(folder: Path, kind: str) -> Iterator[dict[str, Any]]:
    """The rows in all files of changes in a directory."""
    for place in sorted(folder.glob(f"step-*.{kind}")):
        yield from _READERS[kind](place)


def _rows(found: Iterator[dict[str, Any]], columns: list[str]) -> Rows:
    return Counter(tuple(row.get(column) for column in columns) for row in found)


def _messages(place: Path) -> Iterator[dict[str, Any]]:
    """Each once, as a reader takes them that goes by their headers."""
    for line in dict.fromkeys(place.read_text().splitlines()):
        yield json.loads(line)[1]


def repeated_messages(out: Path) -> int:
    """Messages in the topic that a reader who does not look at headers would take twice."""
    place = out / "topic"
    lines = place.read_text().splitlines() if place.exists() else []
    return len(lines) - len(set(lines))


def view(folder: Path) -> Rows:
    """The answer that a view's directory holds."""
    return Counter(tuple(row.values()) for row in pq.read_table(folder / "current.parquet").to_pylist())


def alive(changes: list[dict[str, Any]], at: int) -> Rows:
    """The answer at an instant, from all changes: a '-' repeats the end of the row that it takes back."""
    found: Rows = Counter()
    for row in changes:
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
