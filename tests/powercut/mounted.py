"""A volatile file system under a directory, served by a process of its own.

The process answers the kernel, and on a socket the test: when the power is to fail, whether it has,
and to come up again in a state that a power cut may have left.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from tests.powercut import fuse
from tests.powercut.volatile import Loss, VolatileFileSystem


class Volatile:
    """The test's side."""

    def __init__(self, place: Path, control: Connection) -> None:
        self.place = place
        self._control = control

    def _ask(self, *request: Any) -> Any:
        self._control.send(request)
        return self._control.recv()

    @property
    def operations(self) -> int:
        return int(self._ask("operations"))

    @property
    def is_off(self) -> bool:
        return bool(self._ask("is_off"))

    def sync_all(self) -> None:
        self._ask("sync_all")

    def cut_after(self, operations: int) -> None:
        """Fail with the n-th operation from now on."""
        self._ask("cut_after", operations)

    def cut(self) -> None:
        """Fail now."""
        self._ask("cut_after", 0)

    def power_on(self, loss: Loss, seed: int) -> None:
        """Come up with what a cut has left."""
        self._ask("power_on", loss.value, seed)


@contextlib.contextmanager
def mounted(place: Path) -> Iterator[Volatile]:
    """A volatile file system under `place` for as long as the block lasts."""
    place.mkdir(parents=True, exist_ok=True)
    device = fuse.mount(place)
    ours, theirs = Pipe()
    command = [sys.executable, "-m", "tests.powercut.mounted", str(device), str(theirs.fileno())]
    try:
        with subprocess.Popen(
            command, pass_fds=(device, theirs.fileno()), cwd=Path(__file__).parents[2]
        ) as process:
            os.close(device)
            theirs.close()
            try:
                yield Volatile(place, ours)
            finally:
                fuse.unmount(place)
                ours.close()
                process.wait(30)
    finally:
        fuse.unmount(place)


def serve(device: int, control: Connection) -> None:
    server = fuse.Server(device, VolatileFileSystem())
    while True:
        ready, _, _ = select.select([device, control], [], [])
        if device in ready and not server.serve_one():
            return
        if control in ready:
            try:
                request = control.recv()
            except EOFError:
                return
            control.send(_answer(server, *request))


def _answer(server: fuse.Server, what: str, *given: Any) -> Any:
    files = server.files
    if what == "operations":
        return files.operations
    if what == "is_off":
        return files.is_off
    if what == "sync_all":
        return files.sync_all()
    if what == "cut_after":
        files.cut_at = files.operations + int(given[0])
        return None
    server.files = files.crashed(Loss(given[0]), random.Random(int(given[1])))
    return None


if __name__ == "__main__":
    os.set_inheritable(int(sys.argv[1]), False)
    serve(int(sys.argv[1]), Connection(int(sys.argv[2])))
