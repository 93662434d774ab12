"""The connection between a task and the worker process of its cell: who is at the other end, and whether it still lives.

Both ends check that the other runs as the same user, and prove to each other that they know the run's secret, which goes to tasks in
their closure and to worker processes through a pipe, never through a file, an argument or the environment.

    worker → task    32 random bytes
    task → worker    32 random bytes, proof
    worker → task    proof
    task → worker    JSON, functions, Arrow stream
    worker → task    heartbeats, then JSON and what the answer carries

A proof is an HMAC over both random texts and the role. JSON is preceded by its length; a length of 0 is a heartbeat.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import signal
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from penstock.errors import StateError

HEARTBEAT = 1.0
"""Seconds between two heartbeats."""
WORKER_TIMEOUT = "spark.penstock.worker.timeout"
"""A setting of Spark's: seconds of silence after which a worker process counts as stopped and is replaced."""
DEFAULT_TIMEOUT = 60.0
_NONCE, _PROOF = 32, 32
_LENGTH = struct.Struct("<I")
_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a flow: the name of its worker processes, and what they and its tasks know each other by."""

    name: str = field(default_factory=lambda: secrets.token_hex(6))
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    timeout: float = DEFAULT_TIMEOUT
    """Seconds without a sign of life after which a worker process is replaced."""
    watched: bool = False
    """The driver watches the Python workers of Spark's; otherwise worker processes do."""


def worker_timeout(setting: str | None) -> float:
    """The setting in seconds, as Spark writes them (`30`, `30s`)."""
    try:
        found = DEFAULT_TIMEOUT if setting is None else float(setting.removesuffix("s"))
    except ValueError:
        found = 0.0
    if found < 2 * HEARTBEAT:
        raise StateError(
            f"{WORKER_TIMEOUT} is {setting!r}",
            hint=f"give seconds, at least {2 * HEARTBEAT:g}: {WORKER_TIMEOUT}={DEFAULT_TIMEOUT:g}s",
        )
    return found


def peer(link: socket.socket) -> int:
    """The process at the other end, 0 if it cannot be told; a StateError if it is another user's."""
    if not hasattr(socket, "SO_PEERCRED"):
        return 0
    found = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(found)
    if user != os.geteuid():
        raise StateError(f"process {process} at the other end of a socket belongs to user {user}")
    return int(process)


def kill_silent(process: int) -> None:
    """End a process that no longer answers; SIGKILL reaches one that is stopped, too."""
    if process > 1:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


# ---------------------------------------------------------------------- who is there


def greet_worker(wire: IO[bytes], secret: bytes) -> None:
    """The task's side: prove to know the secret, and have it proved."""
    theirs, ours = _exactly(wire, _NONCE), secrets.token_bytes(_NONCE)
    wire.write(ours + _proof(secret, b"task", theirs, ours))
    wire.flush()
    if not hmac.compare_digest(_exactly(wire, _PROOF), _proof(secret, b"worker", theirs, ours)):
        raise StateError(
            "the process at the socket of a cell does not know this run's secret, so nothing was sent to it",
            hint="stop what else runs as this user with the same temporary directory, and start the flow again",
        )


def greet_task(wire: IO[bytes], secret: bytes) -> bool:
    """The worker's side; False if the other end does not know the secret."""
    ours = secrets.token_bytes(_NONCE)
    wire.write(ours)
    wire.flush()
    theirs, proof = _exactly(wire, _NONCE), _exactly(wire, _PROOF)
    if not hmac.compare_digest(proof, _proof(secret, b"task", ours, theirs)):
        return False
    wire.write(_proof(secret, b"worker", ours, theirs))
    wire.flush()
    return True


def _proof(secret: bytes, role: bytes, worker: bytes, task: bytes) -> bytes:
    return hmac.digest(secret, role + worker + task, hashlib.sha256)


# ---------------------------------------------------------------------- messages


def wire_of(link: socket.socket) -> IO[bytes]:
    both: Any = link.makefile("rwb")
    found: IO[bytes] = both
    return found


def send(wire: IO[bytes], message: dict[str, Any]) -> None:
    body = json.dumps(message, separators=(",", ":")).encode()
    wire.write(_LENGTH.pack(len(body)) + body)
    wire.flush()


def receive(wire: IO[bytes]) -> dict[str, Any]:
    """The next message; heartbeats before it are read and left out."""
    size = 0
    while not size:
        (size,) = _LENGTH.unpack(_exactly(wire, _LENGTH.size))
    message: dict[str, Any] = json.loads(_exactly(wire, size))
    return message


def _exactly(wire: IO[bytes], size: int) -> bytes:
    found = wire.read(size)
    if len(found) < size:
        raise EOFError("the other end has closed the connection")
    return found


@contextlib.contextmanager
def heartbeat(link: socket.socket) -> Iterator[None]:
    """Signs of life while this end works on its answer; nothing else may be written meanwhile."""
    done = threading.Event()

    def beat() -> None:
        with contextlib.suppress(OSError):  # the task is gone: writing the answer will fail
            while not done.wait(HEARTBEAT):
                link.sendall(_LENGTH.pack(0))

    beating = threading.Thread(target=beat, daemon=True, name="penstock-heartbeat")
    beating.start()
    try:
        yield
    finally:
        done.set()
        beating.join()
