"""The worker process a cell lives in, and how a task reaches it.

Spark's Python workers come and go, and the next batch of a partition may meet another one. So a cell lives in a process of
its own, started by the first task that wants it: its state stays in memory as it is, with all that was compiled for its queries. A
task sends the step and its rows over a Unix socket in Spark's local directory, in a folder that only this user can enter
(`private_folder`); both ends prove who they are (`worker_link`).

A worker process that dies loses nothing: the next one rebuilds the cell from the checkpoint. One that is silent for too long (stopped,
swapped out) is killed by the task that waits for it, and replaced. It leaves by itself when the process of Spark's that it was started
for is gone, or when the driver has taken back its mark in the checkpoint. Meanwhile it watches the Python workers of that process
(`python_workers`), unless the driver is on the same machine and does. Only one for a cell runs in a local directory: it holds
a lock on a file beside its socket for as long as it lives.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from penstock.errors import PenstockError, StateError
from penstock.spark.filesystem import Place, located
from penstock.spark.private_folder import PrivateFolder, local_base
from penstock.spark.python_workers import PythonWorkers
from penstock.spark.resource_errors import ENDED, is_shortage
from penstock.spark.worker_link import (
    Run,
    greet_task,
    greet_worker,
    heartbeat,
    kill_silent,
    peer,
    receive,
    send,
    wire_of,
)

if TYPE_CHECKING:
    from penstock.spark.parquet_reader import Files

PATIENCE = 120.0
"""Seconds a task waits for a worker process to start."""
ATTEMPTS = 3
"""How many worker processes are asked for one step; in the last one a lack of memory is an error of the step."""
GREETING = 30.0
"""Seconds a worker process waits for a task to say who it is."""
CARRIED = 4 << 20
"""Bytes of results that an answer carries; more go through files, which Spark reads in parallel."""

_started: list[subprocess.Popen[bytes]] = []
"""Worker processes that this process started; those that have ended are reaped with the next start."""

# ---------------------------------------------------------------------- the task's side


def folder_of(base: Path, run: str) -> PrivateFolder:
    """Where the worker processes of a run are found on this machine."""
    return PrivateFolder(base, f"penstock-{os.geteuid()}", run)


def mark_of(root: Place, flow: str) -> Place:
    """What every machine sees for as long as the flow wants its worker processes."""
    return root / "hosts" / flow


def deliver(
    run: Run,
    root: str,
    cell: int,
    cells: int,
    header: dict[str, Any],
    rows: Iterable[pa.RecordBatch],
    code: bytes,
    files: Files | None = None,
) -> tuple[dict[str, Any], bytes]:
    """Give a step to the cell's worker process, starting one if there is none; its answer and what that carries.

    An error of the cell is an answer too: repeating the task would only repeat it. A worker process that dies or falls silent on the
    way is replaced: the step is asked for again and applied from the log or from the rows sent again.
    """
    table = pa.Table.from_batches(held) if (held := list(rows)) else pa.table({})
    table = table.select([n for n in table.column_names if table.column(n).null_count < table.num_rows])
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with _connected(run, root, cell, cells) as wire:
                final = attempt == ATTEMPTS
                send(wire, {"header": header, "code": len(code), "files": files, "final": final})
                wire.write(code)
                with pa.ipc.new_stream(wire, table.schema) as writer:
                    writer.write_table(table)
                wire.flush()
                answer = receive(wire)
                carried = wire.read(sum(size for _, size in answer.get("carried") or ()))
            break
        except (OSError, EOFError, struct.error) as error:
            if attempt == ATTEMPTS:
                raise StateError(
                    f"the worker process of cell {cell} cannot be kept alive: {error}",
                    hint="see Spark's log, and whether the machine has memory left",
                ) from error
            time.sleep(0.1 * attempt)
    return answer, carried


@contextlib.contextmanager
def _connected(run: Run, root: str, cell: int, cells: int) -> Iterator[IO[bytes]]:
    """A connection to the cell's worker process; if that falls silent, it is killed before the TimeoutError goes on."""
    base = local_base()
    with (
        folder_of(base, run.name) as folder,
        contextlib.closing(_reach(base, folder, run, root, cell, cells)) as link,
    ):
        process = peer(link)
        link.settimeout(run.timeout)
        with wire_of(link) as wire:
            try:
                greet_worker(wire, run.secret)
                yield wire
            except TimeoutError:
                sys.stderr.write(
                    f"penstock: the worker process {process} of cell {cell} has been silent for"
                    f" {run.timeout:g} s and is replaced\n"
                )
                kill_silent(process)
                raise


def _reach(base: Path, folder: PrivateFolder, run: Run, root: str, cell: int, cells: int) -> socket.socket:
    """A connection to the worker process."""
    until = time.monotonic() + PATIENCE
    started: subprocess.Popen[bytes] | None = None
    while True:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        link.settimeout(run.timeout)
        try:
            link.connect(folder.address(f"{cell}.sock"))
            return link
        except OSError as error:
            link.close()
            if time.monotonic() > until:
                kill_silent(_holder(folder, cell))
                raise StateError(
                    f"the worker process of cell {cell} does not answer: {error}",
                    hint=f"see {folder.path / f'{cell}.log'}",
                ) from error
        if started is None or started.poll() is not None:
            started = _start(base, folder, run, root, cell, cells)
        time.sleep(0.02)


def _start(
    base: Path, folder: PrivateFolder, run: Run, root: str, cell: int, cells: int
) -> subprocess.Popen[bytes]:
    log = folder.open(f"{cell}.log", os.O_WRONLY | os.O_APPEND)
    try:
        started = subprocess.Popen(  # noqa: S603 - this interpreter, this package
            [sys.executable, "-m", "penstock.spark.worker_process", str(base), run.name, root, str(cell), str(cells),
             str(_keeper()), "0" if run.watched else str(run.timeout)],
            stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    finally:
        os.close(log)
    _started[:] = [*(process for process in _started if process.poll() is None), started]
    assert started.stdin is not None
    with contextlib.suppress(BrokenPipeError), started.stdin as pipe:  # it may have left already
        pipe.write(run.secret)
    return started


def _holder(folder: PrivateFolder, cell: int) -> int:
    """The process that holds a cell's lock, 0 if none does."""
    lock = folder.open(f"{cell}.lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        told = os.read(lock, 20)
        return int(told) if told.isdigit() else 0
    finally:
        os.close(lock)
    return 0


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


# ---------------------------------------------------------------------- the worker's side


class Worker:
    """A cell, and whatever tasks ask of it, one after the other."""

    def __init__(self, root: str, number: int, cells: int, secret: bytes) -> None:
        from penstock.spark.checkpoint import Store
        from penstock.spark.partition import Cell

        def make(code: bytes) -> Cell:
            return Cell(Store(root), number, cells, _functions(code), CARRIED)

        self._make = make
        self._cell: Cell | None = None
        self._code = b""
        self._secret = secret
        self._turn = threading.Lock()

    def serve(self, link: socket.socket) -> None:
        """One task, from its greeting to its answer."""
        with contextlib.closing(link), wire_of(link) as wire:
            try:
                process = peer(link)
                link.settimeout(GREETING)
                if not greet_task(wire, self._secret):
                    raise StateError(f"process {process} does not know this run's secret")
                link.settimeout(None)
                with heartbeat(link):
                    asked = receive(wire)
                    code = wire.read(asked["code"])
                    rows = pa.ipc.open_stream(wire).read_all()
                    with self._turn:
                        answer, carried = self._step(asked, rows, code)
                send(wire, answer)
                wire.write(carried)
                wire.flush()
            except StateError as error:
                sys.stderr.write(f"penstock: a connection was refused: {error}\n")
                sys.stderr.flush()
            except (OSError, EOFError, RuntimeError, struct.error, MemoryError, pa.ArrowException) as error:
                if is_shortage(error):
                    _end(error)
                if isinstance(error, RuntimeError):
                    raise
                # The task died: it will ask again.

    def _step(self, asked: dict[str, Any], rows: pa.Table, code: bytes) -> tuple[dict[str, Any], bytes]:
        """What the cell answers, and the results that go with it; an error of the cell is an answer, too."""
        try:
            if self._cell is None or code != self._code:
                self._cell, self._code = self._make(code), code
            self._cell.takes_shortages = asked["final"]
            answer = self._cell.step(asked["header"], rows, asked["files"])
            if answer["carried"] is None:
                return answer, b""
            parts = {name: _packed(self._cell.carried[name]) for name in answer["carried"]}
            answer = {**answer, "carried": [[name, len(part)] for name, part in parts.items()]}
            return answer, b"".join(parts.values())
        except PenstockError as error:
            if is_shortage(error) and not asked["final"]:
                _end(error)
            self._cell = None  # what it holds may be half a step
            return {"error": type(error).__name__, "message": error.message, "hint": error.hint}, b""
        except Exception as error:  # noqa: BLE001 - a fault of ours is told to the task
            if is_shortage(error) and not asked["final"]:
                _end(error)
            traceback.print_exc()
            self._cell = None
            return {"error": "StateError", "message": traceback.format_exc(), "hint": None}, b""


def _end(error: BaseException) -> NoReturn:
    """End this process for want of memory or threads; the task starts another."""
    with contextlib.suppress(Exception):  # even this may need memory
        sys.stderr.write(f"penstock: worker process {os.getpid()} ends: {error!r}\n")
        sys.stderr.flush()
    os._exit(ENDED)


def serve(
    base: Path, flow: str, root: str, number: int, cells: int, keeper: int, timeout: float, secret: bytes
) -> None:
    """Answer steps until the keeper, or the driver's mark, is gone. Python workers of the keeper's that are stopped for `timeout`
    seconds are killed; 0: not by this process."""
    folder, mark = folder_of(base, flow), mark_of(located(root), flow)
    lock = folder.open(f"{number}.lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return  # another worker process is there
    os.ftruncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())
    # Before the socket is there: this imports for seconds, and a task that connects waits for signs of life.
    worker = Worker(root, number, cells, secret)
    place, making = f"{number}.sock", f".{number}.sock"
    folder.unlink(place)
    folder.unlink(making)
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    door.bind(folder.address(making))
    door.listen(16)
    folder.rename(making, place)
    if timeout:
        threading.Thread(target=_watch, args=(keeper, timeout), daemon=True).start()
    while _lives(keeper) and folder.exists(place) and mark.exists():
        if select.select([door], [], [], 1.0)[0]:
            link, _ = door.accept()
            threading.Thread(target=worker.serve, args=(link,), daemon=True).start()
    for name in (place, f"{number}.log", f"{number}.lock"):
        folder.unlink(name)
    with contextlib.suppress(OSError):  # others are still there
        folder.path.rmdir()


def _watch(keeper: int, timeout: float) -> None:
    workers = PythonWorkers(keeper, timeout)
    while True:
        time.sleep(workers.interval)
        for process in workers.look():
            sys.stderr.write(
                f"penstock: a Python worker of Spark's (process {process}) has been stopped for {timeout:g} s"
                " and was killed\n"
            )
            sys.stderr.flush()


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


# ---------------------------------------------------------------------- results


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


if __name__ == "__main__":
    os.umask(0o077)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver
    base, flow, root, *numbers, timeout = sys.argv[1:]
    number, cells, keeper = map(int, numbers)
    serve(Path(base), flow, root, number, cells, keeper, float(timeout), sys.stdin.buffer.read())
    sys.stderr.flush()
    os._exit(0)  # without waiting for threads
