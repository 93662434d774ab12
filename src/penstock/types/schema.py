"""Names and types of the columns on an edge."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.types.data_type import Type


@dataclass(frozen=True, slots=True)
class Field:
    """One column: its name, its type, and the alias it can be qualified with (may be empty)."""

    name: str
    type: Type
    qualifier: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.type}"


Schema = tuple[Field, ...]
