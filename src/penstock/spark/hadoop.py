"""A directory that Spark writes to, through Hadoop's file system API.

Hadoop reports a failed rename by returning False; here it is an error that names both paths. On a
mounted file system, files and directories are flushed to disk on request. Elsewhere a file is as
safe as its store makes it when it is closed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from penstock.errors import StateError
from penstock.state.snapshot_file import sync_folder


class HadoopDirectory:
    """A directory; names are relative to it and may contain slashes."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        java: Any = spark._jvm
        self._as_path = java.org.apache.hadoop.fs.Path
        self._fs = file_system(spark, path)
        self._home = self._fs.makeQualified(self._as_path(path))
        self.path = str(self._home.toString())
        """Qualified: with the scheme of its file system."""
        scheme = str(self._fs.getUri().getScheme())
        self.local = Path(str(self._home.toUri().getPath())) if scheme == "file" else None
        """The directory as this process sees it, if it is mounted."""

    def _at(self, name: str) -> Any:
        return self._as_path(self._home, name) if name else self._home

    # ------------------------------------------------------------------ looking

    def exists(self, name: str = "") -> bool:
        return bool(self._fs.exists(self._at(name)))

    def names(self, pattern: str = "*", under: str = "") -> list[str]:
        """The names in the directory (or in `under`) that fit a glob, sorted."""
        return sorted(str(status.getPath().getName()) for status in self._found(pattern, under))

    def modified(self, pattern: str, under: str = "") -> dict[str, int]:
        """By name, when files that fit a glob were last modified, in milliseconds."""
        return {
            str(status.getPath().getName()): int(status.getModificationTime())
            for status in self._found(pattern, under)
        }

    def _found(self, pattern: str, under: str) -> Iterable[Any]:
        place = re.sub(r"([\[\]{}*?\\])", r"\\\1", str(self._at(under).toString()))
        return self._fs.globStatus(self._as_path(f"{place}/{pattern}")) or ()

    def status(self, name: str) -> Any:
        """Hadoop's `FileStatus` of a file."""
        return self._fs.getFileStatus(self._at(name))

    def read(self, name: str) -> str:
        """A small text file."""
        stream = self._fs.open(self._at(name))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    # ------------------------------------------------------------------ changing

    def create(self) -> None:
        """Make the directory; on a mounted file system it and its new parents survive a power cut."""
        if self.local is None:
            if not self._fs.mkdirs(self._home):
                raise StateError(f"{self.path} cannot be made")
            return
        missing = [place for place in (self.local, *self.local.parents) if not place.exists()]
        if not self._fs.mkdirs(self._home):
            raise StateError(f"{self.path} cannot be made")
        for place in reversed(missing):
            sync_folder(place.parent)

    def delete(self, name: str) -> None:
        """A file or a directory with its content; nothing if it is not there."""
        self._fs.delete(self._at(name), True)

    def move(self, name: str, other: str) -> None:
        """Rename a file within the directory, in place of a file of that name."""
        source, target = self._at(name), self._at(other)
        try:
            if self.local is not None and (self.local / other).is_file():
                _replace(self.local / name, self.local / other)  # readers miss the file at no moment
                return
            if self._fs.exists(target):
                self._fs.delete(target, False)  # Hadoop's rename does not replace
            done = bool(self._fs.rename(source, target))
        except (OSError, Py4JJavaError) as error:
            raise _not_renamed(source, target, str(error).partition("\n")[0]) from error
        if not done:
            raise _not_renamed(source, target, "the file system refused")

    def write(self, name: str, text: str) -> None:
        """A small file that appears whole, under a name that no file had before."""
        folder, _, last = name.rpartition("/")
        hidden = f"{folder}/.{last}.tmp" if folder else f".{last}.tmp"
        stream = self._fs.create(self._at(hidden), True)
        try:
            stream.write(bytearray(text.encode()))
            stream.hsync()
        finally:
            stream.close()
        self.sync([hidden])
        self.move(hidden, name)
        self.sync_names(folder)

    # ------------------------------------------------------------------ flushing

    def sync(self, names: Iterable[str]) -> None:
        """Flush the content of files, and of the checksums that Hadoop keeps beside them."""
        if self.local is None:
            return
        for name in names:
            file = self.local / name
            for place in (file, file.with_name(f".{file.name}.crc")):
                if place.exists():
                    _sync_file(place)

    def sync_names(self, under: str = "") -> None:
        """Flush which names the directory (or `under`) has."""
        if self.local is not None:
            sync_folder(self.local / under)


def file_system(spark: SparkSession, path: str) -> Any:
    """Hadoop's `FileSystem` for a path."""
    java: Any = spark._jvm
    context: Any = spark._jsc
    return java.org.apache.hadoop.fs.Path(path).getFileSystem(context.hadoopConfiguration())


def _replace(source: Path, target: Path) -> None:
    """With the checksum that Hadoop keeps beside a file; a file without one is read unchecked."""
    checksums = [place.with_name(f".{place.name}.crc") for place in (source, target)]
    checksums[1].unlink(missing_ok=True)
    source.replace(target)
    if checksums[0].exists():
        checksums[0].replace(checksums[1])


def _sync_file(place: Path) -> None:
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _not_renamed(source: Any, target: Any, why: str) -> StateError:
    return StateError(
        f"{source.toString()} cannot be renamed to {target.toString()}: {why}",
        hint="see that the directory can be written to and that nothing else uses these names",
    )
