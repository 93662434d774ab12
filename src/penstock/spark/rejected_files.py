"""Files of rows that were set aside, late ("late") or too far ahead ("ahead"): one a step and cell, and only the newest are kept.

    <kind>/<stream>/<step>-<cell>-<rows>.parquet

Invariant  what is kept of a stream is all there was, or at least `keep` rows: whole files go, the oldest first.
Cost       a listing of the folder whenever a quarter of what is kept has come since the last one.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import StreamWarning
from penstock.ingest.warnings import lost_notice
from penstock.spark.checkpoint import Store
from penstock.spark.filesystem import Place

_NAME = re.compile(r"(\d{12})-(\d+)(?:-(\d+))?\.parquet")


class SetAsideFile(NamedTuple):
    step: int
    cell: int
    rows: int
    place: Place


def file_name(step: int, cell: int, rows: int) -> str:
    """A step that is repeated sets the same rows aside, in the same file."""
    return f"{step:012d}-{cell}-{rows}.parquet"


def listed(folder: Place) -> list[SetAsideFile]:
    """The files of a folder, the oldest first."""
    if not folder.is_dir():
        return []
    found = ((place, _NAME.fullmatch(place.name)) for place in folder.iterdir())
    return sorted(
        (
            SetAsideFile(int(m[1]), int(m[2]), _rows(place) if m[3] is None else int(m[3]), place)
            for place, m in found
            if m is not None
        ),
        key=lambda file: file[:3],
    )


def _rows(place: Place) -> int:
    """Of a file whose name does not say it: earlier versions wrote such."""
    try:
        count: int = pq.read_metadata(pa.BufferReader(place.read_bytes())).num_rows
    except (OSError, pa.ArrowException):
        return 0  # gone, or damaged: the first to go, at any rate
    return count


def held_rows(folder: Place) -> int:
    """Rows that are kept in a folder."""
    return sum(file.rows for file in listed(folder))


def most_rows(keep: int) -> int:
    """Rows that may be there before the oldest go."""
    return keep + keep // 4


class SetAsideFiles:
    """What the driver keeps of a flow's rows: `keep` of each kind and stream; None: all."""

    def __init__(self) -> None:
        self.keep: int | None = None
        self._held: dict[tuple[str, str], int] = {}
        """Rows there are at most."""
        self._warned: set[tuple[str, str]] = set()

    def note(self, store: Store, kind: str, counts: Mapping[str, int], totals: Mapping[str, int]) -> None:
        """So many rows of streams were set aside in a step, and so many in all."""
        if self.keep is None:
            return
        for name, rows in counts.items():
            folder, key = store.set_aside(kind, name), (kind, name)
            held = self._held[key] + rows if key in self._held else held_rows(folder)
            if held > most_rows(self.keep) or (key not in self._held and held < totals[name]):
                held = _trimmed(folder, self.keep)
                if held < totals[name]:
                    self._warn(kind, name)
            self._held[key] = held

    def _warn(self, kind: str, name: str) -> None:
        """Once of a stream."""
        if (kind, name) not in self._warned:
            self._warned.add((kind, name))
            with suppress(StreamWarning):  # warnings that were made errors must not stop the flow
                warnings.warn(lost_notice(kind, name), stacklevel=4)


def _trimmed(folder: Place, keep: int) -> int:
    """Remove the oldest files that are not needed for so many rows; returns the rows that are left."""
    files = listed(folder)
    held = sum(file.rows for file in files)
    for file in files:
        if held - file.rows < keep:
            break
        file.place.unlink(missing_ok=True)
        held -= file.rows
    return held
