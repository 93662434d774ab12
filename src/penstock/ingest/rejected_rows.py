"""Rows that were set aside, the newest of them: those of a stream that came too late, or were too far ahead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.types.batch import Column, concat

Columns = tuple[Column, ...]


class SetAsideMark(NamedTuple):
    parts: list[Columns]
    length: int
    total: int
    held: int


class SetAside:
    """At most `most` rows are kept (None: all); `count` counts every row."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self.parts: list[Columns] = []
        self.count = 0
        self._held = 0

    def add(self, columns: Columns) -> None:
        """Take rows, in memory of their own."""
        rows = len(columns[0])
        if self._most is not None and self._held + rows > self._most + self._most // 4:
            self._trim(self._most - rows)
        self.parts.append(columns)
        self.count += rows
        self._held += rows

    def _trim(self, most: int) -> None:
        """Keep the newest rows, in another list: an undone push needs the one before."""
        kept: list[Columns] = []
        held = 0
        for part in reversed(self.parts):
            if held >= most:
                break
            rows = len(part[0])
            over = held + rows - most
            kept.append(part if over <= 0 else tuple(c.slice(over, rows).copy() for c in part))
            held += rows - max(over, 0)
        self.parts, self._held = kept[::-1], held

    @property
    def lost(self) -> int:
        """Rows that are not kept any more."""
        return self.count - min(self._held, self.count if self._most is None else self._most)

    def rows(self) -> Columns | None:
        """The newest rows, in the order in which they came."""
        if not self.parts:
            return None
        found = stacked(self.parts)
        over = 0 if self._most is None else len(found[0]) - self._most
        return found if over <= 0 else tuple(c.slice(over, len(c)) for c in found)

    def take_up(self, columns: Columns, count: int) -> None:
        """Be as saved."""
        self.parts, self.count, self._held = [columns], count, len(columns[0])

    def mark(self) -> SetAsideMark:
        return SetAsideMark(self.parts, len(self.parts), self.count, self._held)

    def undo(self, mark: SetAsideMark) -> None:
        """Be as when the mark was made."""
        del mark.parts[mark.length :]
        self.parts, self.count, self._held = mark.parts, mark.total, mark.held

    @property
    def size_bytes(self) -> int:
        return sum(column_bytes(part) for part in self.parts)


def column_bytes(columns: Sequence[Column]) -> int:
    """What columns take, strings as codes."""
    return sum(c.values.nbytes + (0 if c.valid is None else c.valid.nbytes) for c in columns)


def stacked(parts: Sequence[Columns]) -> Columns:
    """One after the other, in memory that stays as it is."""
    return tuple(c[0].kept() if len(c) == 1 else concat(c) for c in zip(*parts, strict=True))
