"""Where files of a checkpoint are: on a file system that is mounted, or on one that pyarrow knows.

A file is there whole or not at all: written under a temporary name, flushed, renamed. What is not mounted has no links and no
flushing of its own: a file is safe when it is closed. Of two processes that write the same log segment there at once both may succeed;
they hold the same rows, and the later stays.

Folders and files are made for this user alone (0700, 0600), whatever the umask. Where the folder above is the group's to write, as in a
checkpoint that driver and executors share under different users, they are made for the group as well.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from pyarrow import fs

from penstock.errors import StateError
from penstock.state.snapshot_file import sync_folder

SPARK_SAYS = {"s3": "s3a"}
"""Schemes that Spark has another name for; either is taken."""


class Remote:
    """A place on a file system that is not mounted, with those calls of a `Path` that a checkpoint needs."""

    def __init__(self, uri: str, rest: str = "") -> None:
        self.uri = uri
        """Of the checkpoint, as it was given."""
        self.rest = rest
        """Where in the checkpoint."""
        self._system, self._base = fs.FileSystem.from_uri(uri)

    @property
    def _path(self) -> str:
        """As the file system says it."""
        return f"{self._base}/{self.rest}" if self.rest else self._base

    def _at(self, rest: str) -> Remote:
        """Another place of the checkpoint; whoever knows the file system is asked once."""
        found = object.__new__(Remote)
        found.uri, found.rest = self.uri, rest
        found._system, found._base = self._system, self._base
        return found

    def __str__(self) -> str:
        return f"{self.uri}/{self.rest}" if self.rest else self.uri

    def __truediv__(self, rest: str) -> Remote:
        return self._at(f"{self.rest}/{rest}" if self.rest else rest)

    def __reduce__(self) -> tuple[Any, ...]:
        return Remote, (self.uri, self.rest)

    @property
    def name(self) -> str:
        return self._path.rpartition("/")[2]

    @property
    def parent(self) -> Remote:
        return self._at(self.rest.rpartition("/")[0])

    def with_name(self, name: str) -> Remote:
        return self.parent / name

    def exists(self) -> bool:
        return bool(self._system.get_file_info(self._path).type != fs.FileType.NotFound)

    def is_dir(self) -> bool:
        return bool(self._system.get_file_info(self._path).type == fs.FileType.Directory)

    def iterdir(self) -> Iterator[Remote]:
        for found in self._system.get_file_info(fs.FileSelector(self._path, allow_not_found=True)):
            yield self / found.base_name

    def glob(self, pattern: str) -> Iterator[Remote]:
        return (place for place in self.iterdir() if fnmatch(place.name, pattern))

    def mkdir(self, *, parents: bool = True, exist_ok: bool = True) -> None:
        """Object stores have no folders, so nobody asks whether there is one."""
        self._system.create_dir(self._path, recursive=parents)

    def unlink(self, *, missing_ok: bool = False) -> None:
        try:
            self._system.delete_file(self._path)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def touch(self) -> None:
        with self.open("wb"):
            pass

    def open(self, mode: str) -> IO[bytes]:
        opened = self._system.open_input_file if mode == "rb" else self._system.open_output_stream
        found: IO[bytes] = opened(self._path)
        return found

    def read_bytes(self) -> bytes:
        with self.open("rb") as file:
            return file.read()

    def rename(self, other: Remote) -> None:
        self._system.move(self._path, other._path)

    def replace(self, other: Remote) -> None:
        self.rename(other)

    def remove_all(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._system.delete_dir(self._path)


Place = Path | Remote


def located(checkpoint: str | os.PathLike[str] | Remote) -> Place:
    """The checkpoint directory by the name under which every machine finds it."""
    if isinstance(checkpoint, Remote):
        return checkpoint
    path = re.sub(r"^file:/+", "/", re.sub("^s3a:", "s3:", str(checkpoint)))
    if not re.match(r"[A-Za-z][\w+.-]+:/", path):
        return Path(path).absolute()
    try:
        return Remote(path.rstrip("/"))
    except (ImportError, OSError, pa.ArrowException) as error:
        raise StateError(
            f"{checkpoint} cannot be opened: {error}",
            hint="name a directory that is mounted on every machine, or a file system that pyarrow knows",
        ) from error


def uri(place: Place) -> str:
    """A place as Spark takes it: on the file system that is meant, whatever Spark's default is."""
    if isinstance(place, Path):
        return f"file://{place}"
    scheme, _, path = place.uri.partition("?")[0].removeprefix("fsspec+").partition(":")
    return f"{SPARK_SAYS.get(scheme, scheme)}:{path}/{place.rest}"


def literal(path: str) -> str:
    """A path as Spark's readers take it: brackets, braces, stars, question marks and backslashes are else patterns."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def remove_all(place: Place) -> None:
    """A folder and what is in it, if it is there."""
    if isinstance(place, Path):
        shutil.rmtree(place, ignore_errors=True)
    else:
        place.remove_all()


def make_folder(place: Place, mode: int = 0o700) -> None:
    """Create a directory and its missing parents, private to this user, each on disk before the next."""
    if not isinstance(place, Path):
        place.mkdir(parents=True, exist_ok=True)
        return
    missing = []
    while not place.is_dir():
        missing.append(place)
        place = place.parent
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another process was first
            folder.mkdir(mode=mode)
            if _is_shared(folder.parent):
                folder.chmod(0o770 | folder.parent.stat().st_mode & stat.S_ISGID)
        sync_folder(folder.parent)


def sync_files(folder: Place) -> None:
    """Bring a directory's files to disk, and the entries that lead to them from two levels above."""
    if not isinstance(folder, Path) or not folder.is_dir():
        return
    for place in folder.iterdir():
        sync_folder(place)
    for place in (folder, folder.parent, folder.parent.parent):
        sync_folder(place)


def create(place: Place) -> IO[bytes]:
    """A new file, private to this user; FileExistsError if there is one, or a link of that name."""
    if not isinstance(place, Path):
        return place.open("xb")
    file = open(place, "xb", opener=_private)  # noqa: SIM115 - the caller closes it
    if _is_shared(place.parent):
        os.fchmod(file.fileno(), 0o660)
    return file


def claim(place: Place) -> bool:
    """Make an empty file; False if there is one. Of two processes that do it at once one succeeds, if mounted."""
    if not isinstance(place, Path) and place.exists():
        return False
    try:
        create(place).close()
    except FileExistsError:
        return False
    return True


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _is_shared(folder: Path) -> bool:
    """Whether the group, and no other user, may write here."""
    mode = folder.stat().st_mode
    return bool(mode & stat.S_IWGRP) and not mode & stat.S_IWOTH


@contextlib.contextmanager
def whole(path: Place, *, once: bool = False) -> Iterator[IO[bytes]]:
    """A binary file that appears under its name only once it is complete and on disk.

    `once`: one that is there by then stays, and FileExistsError is raised.
    """
    make_folder(path.parent)
    temporary: Any = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        with create(temporary) as file:
            yield file
            file.flush()
            if isinstance(path, Path):
                os.fsync(file.fileno())
        if once:
            _put_once(temporary, path)
        else:
            temporary.replace(path)
        if isinstance(path, Path):
            sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _put_once(made: Any, path: Any) -> None:
    try:
        if isinstance(path, Remote):
            raise FileExistsError(str(path)) if path.exists() else OSError(errno.ENOTSUP, "no links")
        path.hardlink_to(made)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
            raise
        made.replace(path)  # no links on this file system: of two that hold the same rows the later stays
    else:
        made.unlink()
