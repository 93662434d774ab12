"""What came to a query with a budget and was not worked on yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.ingest.rejected_rows import column_bytes
from penstock.operators.contract import empty
from penstock.operators.pipeline import Key
from penstock.overload.load_forecast import Forecast
from penstock.overload.ordered_downstream import found_changes, keep_changes, mark_rows
from penstock.overload.spj_block import CoreRun
from penstock.state.arena import Arena
from penstock.types.batch import Array, Batch
from penstock.types.schema import Schema


@dataclass(slots=True)
class Slice:
    """What came until an instant: rows by core and input, and what tables say."""

    now: int
    rows: list[list[Batch]]
    tables: dict[Key, Batch]
    size: int = 0
    """How many rows."""
    pairs: float = 0.0
    """How many pairs they could make (`overload.load_forecast`)."""


class Incoming:
    """Slices, in order. `tables`: what is read, and its columns; `forecast`: is told of all that comes."""

    def __init__(self, cores: Sequence[CoreRun], tables: Mapping[Key, Schema], forecast: Forecast) -> None:
        self._cores = cores
        self._schemas = tables
        self._forecast = forecast
        self.slices: list[Slice] = []

    def __len__(self) -> int:
        """Rows."""
        return sum([part.size for part in self.slices])

    @property
    def size_bytes(self) -> int:
        """Of the rows' columns; strings as codes."""
        return sum(column_bytes(batch.columns) for part in self.slices for own in part.rows for batch in own)

    @property
    def pairs(self) -> float:
        return sum([part.pairs for part in self.slices])

    def put(self, feeds: Mapping[Key, Batch], now: int) -> None:
        """Take what came, in memory that stays as it is, as windows let it in."""
        rows, size = [], 0
        for core in self._cores:
            own = []
            for window in core.windows:
                batch = window.step(feeds, now) if window.stages else feeds[window.sources[0]]
                size += len(batch)
                own.append(batch)
            rows.append(own)
        tables = {key: feeds[key] for key in self._schemas}
        self.slices.append(Slice(now, rows, tables, size, self._forecast.put(rows, now)))

    def take(self) -> list[Slice]:
        """All of it, to be worked on."""
        slices, self.slices = self.slices, []
        return slices

    # ------------------------------------------------------------------ leaving and coming back

    def _places(self, number: int, part: Slice) -> Iterator[tuple[str, Schema, Batch]]:
        """A slice's rows, under names."""
        for n, (core, own) in enumerate(zip(self._cores, part.rows, strict=True)):
            for i, (one, batch) in enumerate(zip(core.core.inputs, own, strict=True)):
                yield f"in{number}.{n}.{i}", one.schema, batch
        for i, (key, batch) in enumerate(part.tables.items()):
            yield f"in{number}.table{i}", self._schemas[key], batch

    def mark_strings(self, mark: Callable[[Array], None]) -> None:
        for n, part in enumerate(self.slices):
            for _, schema, batch in self._places(n, part):
                mark_rows(mark, schema, batch)

    def save(self, arena: Arena) -> list[tuple[int, float]]:
        """Rows into an arena; until when each slice goes, and its pairs."""
        for n, part in enumerate(self.slices):
            for name, _, batch in self._places(n, part):
                keep_changes(arena, name, batch)
        return [(part.now, part.pairs) for part in self.slices]

    def take_up(self, arena: Arena, was: Sequence[tuple[int, float]]) -> None:
        for number, (now, pairs) in enumerate(was):
            nothing = [[empty(len(one.schema)) for one in core.core.inputs] for core in self._cores]
            part = Slice(now, nothing, {key: empty(len(schema)) for key, schema in self._schemas.items()})
            held = [found_changes(arena, name, schema) for name, schema, _ in self._places(number, part)]
            rows = iter(held)
            part.rows = [[next(rows) for _ in own] for own in part.rows]
            part.tables = {key: next(rows) for key in part.tables}
            part.size, part.pairs = sum(len(batch) for own in part.rows for batch in own), pairs
            self.slices.append(part)
