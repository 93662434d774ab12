"""Drawn examples: rows in, clock forward, what is shown and what is sent — written out by hand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import penstock
from tests.oracle.check import same
from tests.oracle.replay import Change, Row, View
from tests.oracle.scalar import Value, moment
from tests.oracle.schema import Columns, native
from tests.oracle.trace import read_changes, rows_of

Sent = tuple[Value, ...]
"""(op, ts, exp, column, …)"""


class Drawn:
    """One session and one query under watch; every step is a call."""

    def __init__(self, ddl: str, **options: Any) -> None:
        self.session = penstock.connect(**options)
        self.session.execute(ddl)
        found = re.findall(r"CREATE STREAM (\w+) \(([^)]*)\)", ddl)
        self.columns: dict[str, list[list[str]]] = {
            n: [c.split() for c in body.split(",")] for n, body in found
        }
        self.timestamps = "TIMESTAMP" in ddl
        self.clock = 0
        self.watched: Any = None

    def table(self, name: str, columns: Columns, rows: list[Row], retroactive: bool = False) -> None:
        self.columns[name] = [list(c) for c in columns]
        body = ", ".join(" ".join(c) for c in columns)
        self.session.execute(f"CREATE {'RETROACTIVE ' if retroactive else ''}TABLE {name} ({body})")
        if rows:
            self.session.update_table(name, insert=self._rows(name, rows))

    def query(
        self, sql: str, key: tuple[int, ...] | str | None = "", name: str = "watched", keep: bool = False
    ) -> None:
        """Registers a query; `key` says where a GROUP BY's key stands (None: it travels as `__key`)."""
        query = self.session.query(sql, name=name, **({"keep": True} if keep else {}))
        if name == "watched":
            self.watched = query
            self.key = key
            self.view = View(keyed=key != "")
            self.heard: list[Change] = []

    def drop(self, name: str) -> None:
        self.session.drop(name)

    @property
    def pattern(self) -> str:
        return str(self.watched.pattern)

    def push(self, stream: str, *rows: Row) -> None:
        self.session.push(stream, self._rows(stream, rows))

    def advance(self, to: int) -> None:
        self.session.advance(self._time(to))
        self.clock = to

    def update(
        self, table: str, insert: Sequence[Row] = (), delete: Sequence[Row] = (), at: int | None = None
    ) -> None:
        when = {} if at is None else {"at": self._time(at)}
        self.session.update_table(
            table, insert=self._rows(table, insert), delete=self._rows(table, delete), **when
        )

    def sends(self, *expected: Sent) -> None:
        """Exactly these changes since the last call of `sends`, as a multiset."""
        self._hear()
        got = Counter((c.op, c.ts, c.exp, *c.row) for c in self.heard)
        self.heard = []
        assert got == Counter(expected), (
            f"sent {sorted(got.elements(), key=str)}, expected {sorted(expected, key=str)}"
        )

    def shows(self, *expected: Row, at: int | None = None) -> None:
        """`snapshot()` and the replayed changes both show these rows at the clock (`at`, or the last advance)."""
        self._hear()
        got = rows_of(self.watched.snapshot())
        kinds = ("DOUBLE",)
        assert same(list(expected), got, kinds), f"snapshot() shows {got}, expected {list(expected)}"
        clock = self.clock if at is None else at
        view = self.view.rows(clock)
        assert same(list(expected), view, kinds), (
            f"changes() add up to {view} at {clock}, expected {list(expected)}"
        )

    def late(self, stream: str) -> int:
        return len(self.session.late(stream))

    def _hear(self) -> None:
        places = self.key
        key = (lambda row: tuple(row[p] for p in places)) if isinstance(places, tuple) else None
        changes = read_changes(self.watched.changes(), key)
        for ts in sorted({c.ts for c in changes}):
            self.view.instant(ts, [c for c in changes if c.ts == ts])
        self.heard += changes

    def _rows(self, name: str, rows: Any) -> list[dict[str, Value]]:
        return [{c[0]: native(c[1], v) for c, v in zip(self.columns[name], row, strict=True)} for row in rows]

    def _time(self, t: int) -> Any:
        return moment(t) if self.timestamps else t
