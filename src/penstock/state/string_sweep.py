"""Which strings somebody still holds: whatever keeps codes marks them, then the pool frees the others."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from penstock.state.strings import Strings
from penstock.types.batch import ABSENT, Array, Column
from penstock.types.data_type import Type
from penstock.types.schema import Schema


class InUse:
    """Marks by code. Made, filled and swept by between two steps."""

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._marks = np.zeros(strings.capacity, np.bool_)

    def mark(self, codes: Array) -> None:
        self._marks[codes[(codes >= 0) & (codes < len(self._marks))]] = True

    def rows(self, schema: Schema, held: Iterable[tuple[Column, ...]]) -> None:
        """The strings of rows of one schema."""
        for columns in held:
            for field, column in zip(schema, columns, strict=True):
                if field.type is Type.STRING and column is not ABSENT:
                    self.mark(column.values)

    def sweep(self) -> None:
        self._strings.sweep(self._marks)
