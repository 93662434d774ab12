"""Updates of tables on their way into the next step.

Invariant  an update of a table that the checkpoint knows survives from the moment `add` returns: it lies in `tables/waiting/` until a
           step holds it, and a step names the updates it holds, so that none is applied twice.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection
from typing import Any

import pyarrow as pa

from penstock.plan.catalog import Table
from penstock.spark.checkpoint import Store, read_segment, write_segment
from penstock.spark.filesystem import Place

Update = tuple[dict[str, Any], dict[str, pa.Table]]
"""A header (`table`, `at`, `first`, `id`) and the rows to `delete` and `insert`."""


class TableUpdates:
    """The updates that no step of a flow holds yet, in the order in which they came."""

    def __init__(self, store: Store, step: int) -> None:
        """`step`: the last one decided; what it and those before it hold does not wait any more."""
        self._folder = store.root / "tables" / "waiting"
        self._store = store
        self._waiting: list[Update] = []
        self._last = 0
        places = self._places()
        written = [place for number, place in store.updates() if number <= step] if places else []
        held = {read_segment(place)[0]["id"] for place in written}
        for place in places:
            update = read_segment(place)
            self._last = int(place.name.partition("-")[0])
            if update[0]["id"] in held:
                place.unlink(missing_ok=True)
            else:
                self._waiting.append(update)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def _places(self) -> list[Place]:
        """The files of updates that wait, in order."""
        if not self._folder.is_dir():
            return []
        return sorted(
            (p for p in self._folder.iterdir() if re.fullmatch(r"\d{12}-\w+\.arrow", p.name)),
            key=lambda place: place.name,
        )

    def add(self, header: dict[str, Any], tables: dict[str, pa.Table], *, durable: bool) -> None:
        """One more update. The first content of a table replaces whatever waits for the table."""
        made = {**header, "id": secrets.token_hex(6)}
        if header["first"]:
            self._discard(lambda other: other["table"] == header["table"])
        if durable:
            self._last += 1
            write_segment(self._folder / f"{self._last:012d}-{made['id']}.arrow", made, tables)
        self._waiting.append((made, tables))

    def of(self, table: Table) -> list[dict[str, pa.Table]]:
        """What waits for a table."""
        return [tables for header, tables in self._waiting if header["table"] == table.name.lower()]

    def write(self, step: int, declared: Collection[str], begins: int) -> list[str]:
        """Write what waits as updates of a step, none of them before `begins`; the names of the files."""
        self._discard(lambda header: header["table"] not in declared)  # dropped meanwhile
        names = []
        for number, (header, tables) in enumerate(self._waiting):
            name = f"{step:012d}-{number}.arrow"
            at = begins if header["at"] is None else max(header["at"], begins)
            write_segment(self._store.root / "tables" / name, {**header, "at": at}, tables)
            names.append(name)
        for number, place in self._store.updates():
            if number == step and place.name not in names:
                place.unlink(missing_ok=True)  # of an attempt that came to nothing
        return names

    def held(self) -> None:
        """A step that is decided holds them all."""
        self._discard(lambda _: True)

    def _discard(self, which: Callable[[dict[str, Any]], bool]) -> None:
        gone = {header["id"] for header, _ in self._waiting if which(header)}
        self._waiting = [update for update in self._waiting if update[0]["id"] not in gone]
        for place in self._places() if gone else ():
            if place.name.rpartition("-")[2].removesuffix(".arrow") in gone:
                place.unlink(missing_ok=True)
