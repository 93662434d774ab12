"""Where the results of a step are, between the cells that made them and the sinks that take them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.spark.checkpoint import Store
from penstock.spark.filesystem import literal, uri
from penstock.spark.result_files import file_name
from penstock.spark.worker_process import unpacked


class Results:
    """One step's results: some came with the cells' answers, the others lie in files."""

    def __init__(self) -> None:
        self._tables: dict[str, list[pa.Table]] = {}
        self._files: dict[str, list[str]] = {}

    def heard(self, store: Store, answers: list[dict[str, Any]], carried: list[bytes]) -> None:
        self._tables, self._files = {}, {}
        for answer, content in zip(answers, carried, strict=True):
            for name, table in unpacked(answer, content).items():
                self._tables.setdefault(name, []).append(table)
            for name in answer["files"]:
                place = store.out(int(answer["step"]), answer["laid"]) / file_name(name)
                self._files.setdefault(name, []).append(literal(uri(place)))

    def carried(self, name: str) -> pa.Table | None:
        """What came with answers."""
        return pa.concat_tables(self._tables[name]) if name in self._tables else None

    def files(self, name: str) -> list[str]:
        """Where the rest lies, as the answers say; a file that is not there is an error, not nothing."""
        return self._files.get(name, [])
