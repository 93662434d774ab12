"""The checkpoint directory: what a flow must find again after a crash.

    flow.json, flow-<deal>.json  format version, number of cells, how often rows were dealt out anew, the streams' rates then
    epochs/<epoch>.json          which drivers have claimed the checkpoint; the last one holds it (see `epoch`)
    hosts/<run>                  there while a driver wants the hosts of its run
    declared/<step>.json         streams, tables and queries from that step on
    steps/<step>.json            what the driver decided: Spark's batch, watermarks, end of input
    done/<step>.json             what it knew afterwards: watermarks, newest times, the clock
    tables/<step>-<n>.arrow      updates of tables
    tables/waiting/...           those that no step holds yet
    cells/<deal>/<cell>/log/<step>.arrow      the rows a cell accepted
    cells/<deal>/<cell>/state/<step>.state    a cell's state after the step
    out/<step>/<cell>-<any>/...  changes laid down for the sinks; a cell's answer says in which of them
    late/<stream>/..., ahead/<stream>/...   rows that were set aside (see `set_aside_files`)
    dropped/<query>/<step>-<cell>.parquet

What is read back is checked against the checksum it carries; a file that does not fit is a `StateError` that names it.

Two hosts of a cell may write at once, on machines that know nothing of each other. So no temporary name is made twice; a step
is logged once, by whoever comes first; nobody lays changes down where another does.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.errors import StateError
from penstock.spark.filesystem import Place, Remote, located, make_folder, remove_all, whole
from penstock.state.snapshot_file import sync_folder
from penstock.types.event_time import LATEST
from penstock.types.names import path_part

FORMAT = 24
_MARK = b"penstock\n"


class Store:
    """One flow's files under `root`."""

    def __init__(self, root: str | os.PathLike[str] | Remote) -> None:
        self.root = located(root)
        told = read_json(self._flow) if self._flow.exists() else {}
        self.deal = int(told.get("deal", 0))
        """Another number of cells is another deal."""
        self.rates: dict[str, float] = told.get("rates", {})
        """How many rows streams had, in proportion, when rows were last dealt out anew; cells are laid out for them."""

    # ------------------------------------------------------------------ places

    @property
    def _flow(self) -> Place:
        """Of the last deal. Each deal has a file of its own: where a file is replaced by removing it first, as on HDFS, a crash between
        the two would leave none."""
        found = (
            re.fullmatch(r"flow-(\d+)\.json", place.name)
            for place in (self.root.iterdir() if self.root.is_dir() else ())
        )
        return self._flow_of(max((int(m[1]) for m in found if m), default=0))

    def _flow_of(self, deal: int) -> Place:
        return self.root / (f"flow-{deal}.json" if deal else "flow.json")

    def log(self, cell: int, step: int) -> Place:
        return self.root / self._cell(cell, "log") / f"{step:012d}.arrow"

    def state(self, cell: int, step: int) -> Place:
        return self.root / self._cell(cell, "state") / f"{step:012d}.state"

    def _cell(self, cell: int, kind: str) -> str:
        return f"cells/{self.deal}/{cell}/{kind}"

    def out(self, step: int, laid: str) -> Place:
        return self.root / "out" / f"{step:012d}" / laid

    def set_aside(self, kind: str, stream: str) -> Place:
        """Rows of a stream that came too late ("late") or are too far ahead ("ahead"), a file a step and cell."""
        return self.root / kind / path_part(stream)

    def pushed(self, stream: str) -> Place:
        """Rows given by `push` that wait for Spark to read them."""
        return self.root / "pushed" / path_part(stream)

    def dropped(self, query: str) -> Place:
        """What a query has dropped, a file a step and cell."""
        return self.root / "dropped" / path_part(query)

    def logs(self, cell: int) -> list[int]:
        """The steps whose rows a cell's log has."""
        return self.numbers(self._cell(cell, "log"))

    def states(self, cell: int) -> list[int]:
        """The steps after which a cell's state was written."""
        return self.numbers(self._cell(cell, "state"))

    def numbers(self, folder: str) -> list[int]:
        """The steps for which a folder has a file (or folder), in order."""
        place = self.root / folder
        if not place.is_dir():
            return []
        found = (re.fullmatch(r"(\d{12})(\.\w+)?", entry.name) for entry in place.iterdir())
        return sorted(int(m[1]) for m in found if m)

    # ------------------------------------------------------------------ small files

    def put(self, kind: str, step: int, content: dict[str, Any]) -> None:
        write_json(self.root / kind / f"{step:012d}.json", content)

    def last_step(self) -> dict[str, Any] | None:
        """The last step that was decided and holds: not one with which cells of another number were to begin, and did not."""
        for step in reversed(self.numbers("steps")):
            header = self.get("steps", step)
            if header.get("deal", self.deal) == self.deal:
                return header
        return None

    def sync(self, folder: str) -> None:
        """Put the names of a folder on disk."""
        place = self.root / folder
        if isinstance(place, Path):
            sync_folder(place)

    def decide(self, header: dict[str, Any]) -> None:
        """Write a step down. One that a driver of an earlier epoch has written since the checkpoint was claimed counts for nothing: that
        driver sees the claim before it asks any cell (see `epoch`)."""
        place = self.root / "steps" / f"{header['step']:012d}.json"
        try:
            write_json(place, header, once=True)
        except FileExistsError:
            if read_json(place)["epoch"] <= header["epoch"]:
                write_json(place, header)

    def get(self, kind: str, step: int) -> dict[str, Any]:
        return read_json(self.root / kind / f"{step:012d}.json")

    def at(self, kind: str, step: int) -> tuple[int, dict[str, Any]] | None:
        """The newest file of a kind that is not after the step."""
        found = [n for n in self.numbers(kind) if n <= step]
        return (found[-1], self.get(kind, found[-1])) if found else None

    def epoch_of(self, step: int) -> str | None:
        """In which epoch a step was decided; None: it is no longer recorded."""
        place = self.root / "steps" / f"{step:012d}.json"
        return str(read_json(place)["epoch"]) if place.exists() else None

    def newest(self, step: int) -> int | None:
        """No row of a step, or of those before it, has a greater time; None: the step is not done."""
        place = self.root / "done" / f"{step:012d}.json"
        return max(read_json(place)["newest"].values(), default=-LATEST) if place.exists() else None

    def updates(self) -> list[tuple[int, Place]]:
        """The files with updates of tables, in order, each with its step."""
        found = (
            re.fullmatch(r"(\d+)-(\d+)\.arrow", place.name)
            for place in (self.root / "tables").glob("*.arrow")
        )
        order = sorted((int(m[1]), int(m[2]), m[0]) for m in found if m)
        return [(step, self.root / "tables" / name) for step, _, name in order]

    def is_over(self, step: int) -> bool:
        """Whether every cell has answered a step: whoever logs it only now comes too late."""
        name = f"{step:012d}.json"
        return (self.root / "done" / name).exists() or not (self.root / "steps" / name).exists()

    def open(self, cells: int) -> dict[str, Any]:
        """The flow's description, made now if this is its first start."""
        if not self._flow.exists():
            if isinstance(self.root, Path):
                make_folder(self.root.parent, mode=0o777)
                make_folder(self.root)
            content = {"format": FORMAT, "cells": cells, "deal": self.deal, "rates": self.rates}
            with contextlib.suppress(FileExistsError):  # another session is as new as this one
                write_json(self._flow, content, once=True)
        content = read_json(self._flow)
        if content.get("format") != FORMAT:
            raise StateError(
                f"{self._flow}: format {content.get('format')!r}, this version reads {FORMAT}",
                hint="start with another checkpoint directory",
            )
        return content

    def next_deal(self) -> Store:
        """Where the cells of the next deal have their files; nothing else of it is there yet."""
        other = Store(self.root)
        other.deal = self.deal + 1
        remove_all(self.root / "cells" / str(other.deal))
        return other

    def enter(self, cells: int, rates: dict[str, float]) -> None:
        """From now on this deal, of so many cells, holds; what is left of the one before goes."""
        content = {"format": FORMAT, "cells": cells, "deal": self.deal, "rates": rates}
        write_json(self._flow_of(self.deal), content)
        remove_all(self.root / "cells" / str(self.deal - 1))

    # ------------------------------------------------------------------ letting go

    def forget_results(self, before: int) -> None:
        """Results of steps below `before` have been read by every sink."""
        for step in self.numbers("out"):
            if step < before:
                remove_all(self.root / "out" / f"{step:012d}")

    def forget_cell(self, cell: int, log_before: int, state_before: int) -> None:
        """Log segments and states that nobody needs any more."""
        for kind, before in (("log", log_before), ("state", state_before)):
            folder = self.root / self._cell(cell, kind)
            for place in folder.iterdir():
                found = re.match(r"\.?(\d{12})\.", place.name)  # with a dot: what a host that died was making
                if found and int(found[1]) < before:
                    place.unlink(missing_ok=True)

    def forget_step(self, step: int) -> None:
        """It was decided, and is not to be done."""
        (self.root / "steps" / f"{step:012d}.json").unlink()

    def forget_done(self, step: int) -> None:
        """It is to be done again."""
        (self.root / "done" / f"{step:012d}.json").unlink(missing_ok=True)

    def forget_steps(self, cells: int) -> None:
        """What was decided before all that any cell still has; of declarations the ones in force then stay."""
        held = [min([*self.logs(cell)[:1], *self.states(cell)[:1]], default=0) for cell in range(cells)]
        oldest = min(held)
        for kind in ("steps", "done", "declared"):
            for step in [n for n in self.numbers(kind) if n < oldest][:-1]:
                (self.root / kind / f"{step:012d}.json").unlink(missing_ok=True)


# ---------------------------------------------------------------------- what files hold


def write_json(path: Place, content: dict[str, Any], *, once: bool = False) -> None:
    body = json.dumps(content, separators=(",", ":")).encode()
    try:
        with whole(path, once=once) as file:
            file.write(_MARK + f"{zlib.crc32(body):08x}\n".encode() + body)
    except FileExistsError:
        raise
    except OSError as error:
        raise StateError(f"{path} cannot be written: {error.strerror or error}") from error


def read_json(path: Place) -> dict[str, Any]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StateError(f"{path}: {error.strerror or error}") from error
    head, body = content[: len(_MARK) + 9], content[len(_MARK) + 9 :]
    if head != _MARK + f"{zlib.crc32(body):08x}\n".encode():
        raise StateError(
            f"{path} is damaged: its checksum does not fit", hint="restore the file from a backup"
        )
    found: dict[str, Any] = json.loads(body)
    return found


# ---------------------------------------------------------------------- log segments


def write_segment(
    path: Place, header: dict[str, Any], tables: dict[str, pa.Table], *, once: bool = False
) -> int:
    """Tables by name, with a header, as one checksummed file; returns its size."""
    parts = []
    for name, table in tables.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        body = sink.getvalue()
        parts.append((name, body, zlib.crc32(body)))
    described = {**header, "tables": [[name, body.size, check] for name, body, check in parts]}
    head = json.dumps(described, separators=(",", ":")).encode()
    with whole(path, once=once) as file:
        file.write(_MARK + f"{len(head):08x} {zlib.crc32(head):08x}\n".encode() + head)
        for _, body, _ in parts:
            file.write(body)
        size: int = file.tell()
    return size


def read_segment(path: Place) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """What `write_segment` wrote, or a StateError that says what is wrong with the file."""
    damaged = StateError(f"{path} is damaged", hint="restore the file from a backup")
    try:
        content = pa.py_buffer(path.read_bytes())
    except OSError as error:
        raise StateError(f"{path}: {error.strerror or error}") from error
    start = len(_MARK) + 18
    try:
        mark = content[:start].to_pybytes()
        length, check = (int(part, 16) for part in mark[len(_MARK) : -1].split(b" "))
        head = content[start : start + length].to_pybytes()
        if not mark.startswith(_MARK) or len(head) != length or zlib.crc32(head) != check:
            raise damaged
        header = json.loads(head)
        tables = {}
        at = start + length
        for name, size, check in header.pop("tables"):
            body = content[at : at + size]
            if body.size != size or zlib.crc32(body) != check:
                raise damaged
            tables[name] = pa.ipc.open_stream(body).read_all()
            at += size
        if at != content.size:
            raise damaged
    except (ValueError, KeyError, IndexError, pa.ArrowException) as error:
        raise damaged from error
    return header, tables
