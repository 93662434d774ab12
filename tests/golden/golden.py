"""Golden scripts: a query, what it is fed, and what it says, on one page.

A file is prose, then sections that are carried out in order:

    -- schema                SQL statements
    -- function NAME         registers one of FUNCTIONS
    -- query                 the standing query
    -- feed                  rows, table updates and `advance N`, see `Feed`
    -- expect at τ           rows of the snapshot at τ, worked out by hand: never rewritten
    -- plan                  what explain() says
    -- changes               what changes() says, since the last such section
    -- snapshot at τ         what snapshot(at=τ) says
    -- error                 the error that the section before must raise

With PENSTOCK_UPDATE_GOLDEN=1 the last four are rewritten by what the engine says; read the difference.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import penstock
from penstock.errors import PenstockError
from penstock.types.data_type import Type

OUTPUTS = ("plan", "changes", "snapshot", "error")
FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "bucket": (lambda x: None if x is None else x // 10, "INT"),
    "shout": (lambda s: None if s is None else s.upper() + "!", "STRING"),
}


@dataclass
class Section:
    kind: str
    argument: str
    body: str

    def header(self) -> str:
        return f"-- {self.kind} {self.argument}".rstrip()


@dataclass
class Script:
    prose: str
    sections: list[Section]

    @classmethod
    def read(cls, path: Path) -> Script:
        prose, *rest = re.split(r"^-- (.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        sections = []
        for header, body in zip(rest[::2], rest[1::2], strict=True):
            kind, _, argument = header.strip().partition(" ")
            sections.append(Section(kind, argument.strip(), body.strip("\n")))
        return cls(prose.strip(), sections)

    def write(self, path: Path) -> None:
        parts = [self.prose, *(f"{s.header()}\n{s.body}".rstrip() for s in self.sections)]
        path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


class Player:
    """Carries out a script, section by section."""

    def __init__(self) -> None:
        self.session = penstock.connect()
        self.query: Any = None
        self.failed: PenstockError | None = None

    def play(self, section: Section, *, may_fail: bool) -> str | None:
        """What an output section should hold; None for the others."""
        try:
            return getattr(self, "_" + section.kind)(section)
        except PenstockError as error:
            if not may_fail:
                raise
            self.failed = error
            return None

    def _schema(self, section: Section) -> None:
        self.session.execute(section.body)

    def _function(self, section: Section) -> None:
        body, returns = FUNCTIONS[section.argument]
        self.session.create_function(section.argument, body, returns=returns)

    def _query(self, section: Section) -> None:
        self.query = self.session.query(section.body, name=section.argument or "q")

    def _feed(self, section: Section) -> None:
        for step in feed(section.body):
            self._step(*step)

    def _step(self, verb: str, name: str, rows: list[dict[str, Any]], gone: list[dict[str, Any]]) -> None:
        if verb == "advance":
            self.session.advance(int(name))
        elif verb == "update":
            self.session.update_table(name, insert=self._typed(name, rows), delete=self._typed(name, gone))
        else:
            self.session.push(name, self._typed(name, rows))

    def _typed(self, name: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        catalog = self.session.catalog
        source = catalog.streams.get(name) or catalog.tables[name]
        types = {f.name: f.type for f in source.schema}
        return [{k: value(v, types[k]) for k, v in row.items()} for row in rows]

    def _expect(self, section: Section) -> None:
        columns, *rows = table_rows(section.body)
        got = self.query.snapshot(at=_tau(section))
        assert got.column_names == columns
        shown = sorted(tuple(show(v) for v in row.values()) for row in got.to_pylist())
        assert shown == sorted(tuple(r) for r in rows), (
            f"Q({section.argument}) is not what was worked out by hand"
        )

    def _plan(self, _: Section) -> str:
        return str(self.query.explain()).rstrip()

    def _changes(self, _: Section) -> str:
        return draw(self.query.changes(), key=("__ts", "__op"))

    def _snapshot(self, section: Section) -> str:
        return draw(self.query.snapshot(at=_tau(section)))

    def _error(self, _: Section) -> str:
        assert self.failed is not None, "the section before raised nothing"
        return f"{type(self.failed).__name__}: {self.failed}"


def _tau(section: Section) -> int | None:
    return int(section.argument.removeprefix("at ")) if section.argument else None


def feed(text: str) -> Iterator[tuple[str, str, list[dict[str, Any]], list[dict[str, Any]]]]:
    """Steps of a feed: (verb, name, rows, deleted rows).

    a | ts | x         rows pushed to stream a
      | 1  | 5
    advance 3
    update t | k | v   rows added to (+) and taken from (-) table t
    +        | 1 | x
    """
    step: tuple[str, str, list[dict[str, Any]], list[dict[str, Any]]] | None = None
    columns: list[str] = []
    for line in filter(str.strip, text.splitlines()):
        head, *cells = (c.strip() for c in line.split("|"))
        if head in ("", "+", "-"):
            assert step is not None, f"a row without a table: {line}"
            step[3 if head == "-" else 2].append(dict(zip(columns, cells, strict=True)))
            continue
        if step is not None:
            yield step
        verb, _, name = head.rpartition(" ")
        step, columns = (verb or "push", name, [], []), cells
    if step is not None:
        yield step


def value(text: str, kind: Type) -> Any:
    if text == "NULL":
        return None
    if kind.is_integer:
        return int(text)
    if kind.is_float:
        return float(text)
    if kind is Type.BOOLEAN:
        return text == "true"
    if kind is Type.TIMESTAMP:
        return dt.datetime.fromisoformat(text)
    return text


def show(item: object) -> str:
    if item is None:
        return "NULL"
    if isinstance(item, bool):
        return str(item).lower()
    return f"{item:.9g}" if isinstance(item, float) else str(item)


def table_rows(text: str) -> list[list[str]]:
    """The cells of a drawn table, header first."""
    return [[c.strip() for c in line.split("|")] for line in text.splitlines() if line.strip()]


def draw(table: pa.Table, key: tuple[str, ...] = ()) -> str:
    """A table in columns; only the multiset at an instant is defined, so rows are sorted."""
    rows = sorted(
        table.to_pylist(), key=lambda r: ([(r[k] != "-", r[k]) for k in key], [show(v) for v in r.values()])
    )
    cells = [list(table.column_names), *([show(v) for v in row.values()] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = (" | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells)
    return "\n".join(lines)
