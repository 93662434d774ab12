"""Directories that only this user can enter, held open so that no other can take their place.

Threat     another user of the machine makes the directory first, or puts a link where a file is to be: he would then receive rows
           and functions, forge answers, or have files of ours truncated.
Invariant  a directory belongs to this user and no other may enter it, or it is refused. Files in it are opened relative to the
           open directory, never through a link.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.errors import StateError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class PrivateFolder:
    """`parts` below `base`; each of them is made if it is missing, and checked."""

    def __init__(self, base: Path, *parts: str) -> None:
        self.path = base.joinpath(*parts)
        handle = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            place = base
            for part in parts:
                place /= part
                below = _entered(handle, part, place)
                os.close(handle)
                handle = below
        except BaseException:
            os.close(handle)
            raise
        self.handle = handle

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.handle)

    def open(self, name: str, flags: int) -> int:
        """A file of this folder, made if it is missing; the caller closes the descriptor."""
        flags |= os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            file = os.open(name, flags, 0o600, dir_fd=self.handle)
        except FileNotFoundError:
            raise  # the folder was removed by the last worker process that left: it can be made again
        except OSError as error:
            raise StateError(
                f"{self.path / name} cannot be opened: {error.strerror}",
                hint="it must be a file of this user, not a link",
            ) from error
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_nlink != 1:
            os.close(file)
            raise StateError(
                f"{self.path / name} is not a file of this user alone",
                hint="remove it, or name another directory in spark.local.dir",
            )
        return file

    def address(self, name: str) -> str:
        """Where a socket of this folder is bound or reached: short, however long the path is, and in just this folder."""
        through = Path(f"/proc/self/fd/{self.handle}")
        return str((through if through.exists() else self.path) / name)

    def exists(self, name: str) -> bool:
        try:
            os.stat(name, dir_fd=self.handle, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def unlink(self, name: str) -> None:
        """Remove a file if it is there."""
        try:
            os.unlink(name, dir_fd=self.handle)
        except FileNotFoundError:
            return

    def rename(self, name: str, other: str) -> None:
        os.rename(name, other, src_dir_fd=self.handle, dst_dir_fd=self.handle)


def _entered(above: int, name: str, place: Path) -> int:
    """A directory below another, made if it is missing; refused unless it is this user's alone."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=above)
    try:
        handle = os.open(name, _FOLDER, dir_fd=above)
    except OSError as error:
        raise StateError(f"{place} cannot be entered: {error.strerror}", hint=_hint(place)) from error
    found = os.fstat(handle)
    wrong = None
    if found.st_uid != os.geteuid():
        wrong = f"belongs to user {found.st_uid}, not to user {os.geteuid()}"
    elif found.st_mode & 0o077:
        wrong = (
            f"has the permissions {stat.S_IMODE(found.st_mode):04o}, and others than its user may enter it"
        )
    if wrong is not None:
        os.close(handle)
        raise StateError(
            f"{place} {wrong}: worker processes cannot be reached there safely", hint=_hint(place)
        )
    return handle


def _hint(place: Path) -> str:
    return f"remove {place}, or name a directory that is yours in spark.local.dir"


def local_base() -> Path:
    """Where files of this machine and this Spark belong: Spark's local directory in a task, else the temporary directory."""
    for folder in filter(None, os.environ.get("SPARK_LOCAL_DIRS", "").split(",")):
        if os.access(folder, os.W_OK | os.X_OK):
            return Path(folder)
    return Path(tempfile.gettempdir())
