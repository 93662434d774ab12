"""The process a cell lives in, and how a task reaches it.

Spark's Python workers come and go, and the next batch of a partition may meet another one. So a cell lives in a process of
its own, one per machine, started by the first task that wants it: its state stays in memory as it is, with all that was
compiled for its queries. A task sends the step and its rows over a Unix socket in a folder only this user can enter.

A host that dies loses nothing: the next one rebuilds the cell from the checkpoint. It leaves by itself when the process of Spark's
that it was started for is gone, or when the driver has taken back its mark in the checkpoint. Only one host for a cell runs on a
machine: it holds a lock on a file beside its socket for as long as it lives.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import PenstockError, StateError
from penstock.runtime.spark.places import Place, located

if TYPE_CHECKING:
    from penstock.runtime.spark.files import Files

PATIENCE = 120.0
"""Seconds a task waits for a host to start."""
CARRIED = 4 << 20
"""Bytes of results that an answer carries; more go through files, which Spark reads in parallel."""

# ---------------------------------------------------------------------- the task's side


def folder_of(flow: str) -> Path:
    """Where the hosts of a flow are found on this machine."""
    return Path(tempfile.gettempdir()) / f"penstock-{os.getuid()}" / flow


def mark_of(root: Place, flow: str) -> Place:
    """What every machine sees for as long as the flow wants its hosts."""
    return root / "hosts" / flow


def deliver(
    flow: str,
    root: str,
    cell: int,
    cells: int,
    header: dict[str, Any],
    rows: Iterable[pa.RecordBatch],
    code: bytes,
    files: Files | None = None,
) -> tuple[dict[str, Any], bytes]:
    """Give a step to the cell's host, starting one if there is none; the host's answer and what it carries.

    An error of the cell is an answer too: repeating the task would only repeat it. A host that dies on the way is replaced once: the step is asked for again and applied from the log or from the rows
    sent again.
    """
    table = pa.Table.from_batches(held) if (held := list(rows)) else pa.table({})
    table = table.select([n for n in table.column_names if table.column(n).null_count < table.num_rows])
    for attempt in (1, 2, 3):
        try:
            with contextlib.closing(_reach(flow, root, cell, cells)) as link, _wire(link) as wire:
                _send(wire, {"header": header, "code": len(code), "files": files})
                wire.write(code)
                with pa.ipc.new_stream(wire, table.schema) as writer:
                    writer.write_table(table)
                wire.flush()
                answer = _receive(wire)
                carried = wire.read(sum(size for _, size in answer.get("carried") or ()))
            break
        except (OSError, EOFError, struct.error) as error:
            if attempt == 3:
                raise StateError(f"the host of cell {cell} cannot be kept alive: {error}") from error
            time.sleep(0.1 * attempt)
    return answer, carried


def _reach(flow: str, root: str, cell: int, cells: int) -> socket.socket:
    """A connection to the host."""
    place = folder_of(flow) / f"{cell}.sock"
    until = time.monotonic() + PATIENCE
    started: subprocess.Popen[bytes] | None = None
    while True:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            link.connect(str(place))
            return link
        except OSError as error:
            link.close()
            if time.monotonic() > until:
                raise StateError(
                    f"the host of cell {cell} does not answer: {error}",
                    hint=f"see {place.with_suffix('.log')}",
                ) from error
        if started is None or started.poll() is not None:
            started = _start(flow, root, cell, cells)
        time.sleep(0.02)


def _start(flow: str, root: str, cell: int, cells: int) -> subprocess.Popen[bytes]:
    folder = folder_of(flow)
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / f"{cell}.log").open("ab") as log:
        return subprocess.Popen(  # noqa: S603 - this interpreter, this package
            [sys.executable, "-m", "penstock.runtime.spark.host", flow, root, str(cell), str(cells), str(_keeper())],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def _keeper() -> int:
    """The process whose end is the host's: Spark's own, two above a Python worker."""
    try:
        with Path(f"/proc/{os.getppid()}/stat").open() as stat:
            found = int(stat.read().rsplit(")", 1)[1].split()[1])
    except (OSError, ValueError, IndexError):
        found = os.getppid()
    if found <= 1:
        raise StateError("this Python worker has lost its Spark")  # what it starts would never be told to end
    return found


# ---------------------------------------------------------------------- the host's side


def serve(flow: str, root: str, number: int, cells: int, keeper: int) -> None:
    """Answer steps until the keeper, or the driver's mark, is gone."""
    from penstock.runtime.spark.cell import Cell
    from penstock.runtime.spark.store import Store

    folder, mark = folder_of(flow), mark_of(located(root), flow)
    lock = (folder / f"{number}.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return  # another host is there
    place = folder / f"{number}.sock"
    place.unlink(missing_ok=True)
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    making = folder / f".{number}.sock"
    making.unlink(missing_ok=True)
    door.bind(str(making))
    door.listen(16)
    making.rename(place)
    cell: Cell | None = None
    known = b""
    while _lives(keeper) and place.exists() and mark.exists():
        if not select.select([door], [], [], 1.0)[0]:
            continue
        link, _ = door.accept()
        with contextlib.closing(link), _wire(link) as wire:
            try:
                asked = _receive(wire)
                code = wire.read(asked["code"])
                rows = pa.ipc.open_stream(wire).read_all()
            except (OSError, EOFError, struct.error, pa.ArrowException):
                continue  # the task died
            carried = b""
            try:
                if cell is None or code != known:
                    cell, known = Cell(Store(root), number, cells, _functions(code), CARRIED), code
                answer = cell.step(asked["header"], rows, asked["files"])
                if answer["carried"] is not None:
                    parts = {name: _packed(cell.carried[name]) for name in answer["carried"]}
                    answer = {**answer, "carried": [[name, len(part)] for name, part in parts.items()]}
                    carried = b"".join(parts.values())
            except PenstockError as error:
                cell = None  # what it holds may be half a step
                answer = {"error": type(error).__name__, "message": error.message, "hint": error.hint}
            except Exception:  # noqa: BLE001 - a fault of ours is told to the task
                traceback.print_exc()
                cell = None
                answer = {"error": "StateError", "message": traceback.format_exc(), "hint": None}
            with contextlib.suppress(OSError):  # the task died: it will ask again
                _send(wire, answer)
                wire.write(carried)
                wire.flush()
    place.unlink(missing_ok=True)


def _functions(code: bytes) -> Any:
    """The user's functions, as Spark's own closures bring them; nothing from a file is ever unpickled."""
    if not code:
        return {}
    from pyspark import cloudpickle

    return cloudpickle.loads(code)


def _lives(process: int) -> bool:
    """Whether a process runs; one that has ended may be listed until somebody asks for its status."""
    try:
        os.kill(process, 0)
    except OSError:
        return False
    with contextlib.suppress(OSError, IndexError), Path(f"/proc/{process}/stat").open() as stat:
        return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    return True


# ---------------------------------------------------------------------- the wire


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def unpacked(answer: dict[str, Any], carried: bytes) -> dict[str, pa.Table]:
    """What an answer carries, by name."""
    found, at = {}, 0
    for name, size in answer.get("carried") or ():
        found[name] = pa.ipc.open_stream(carried[at : at + size]).read_all()
        at += size
    return found


def _wire(link: socket.socket) -> IO[bytes]:
    both: Any = link.makefile("rwb")
    found: IO[bytes] = both
    return found


def _send(wire: IO[bytes], message: dict[str, Any]) -> None:
    body = json.dumps(message, separators=(",", ":")).encode()
    wire.write(struct.pack("<I", len(body)) + body)
    wire.flush()


def _receive(wire: IO[bytes]) -> dict[str, Any]:
    head = wire.read(4)
    if len(head) < 4:
        raise EOFError("the other side is gone")
    (size,) = struct.unpack("<I", head)
    body = wire.read(size)
    if len(body) < size:
        raise EOFError("the other side is gone")
    message: dict[str, Any] = json.loads(body)
    return message


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
