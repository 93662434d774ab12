"""Sinks that keep files in a directory: every step's changes, or the current answer.

Files are written under a hidden name first, flushed, and then renamed. What a step wrote is on disk
before the flow notes the step as done.

Two drivers may write the same step at once, until the older one notices that it was replaced: each has names of its own for files
that it writes, and before it renames any it makes sure that it still holds the checkpoint (`fence`).

A view is published through one pointer. Each answer has files of its own; a new file in
`_spark_metadata` names them. Spark's batch readers take the files that the newest entry there names,
as they do in directories written by Spark's own streaming sinks. So they see one answer or the next,
never both, and files of replaced answers stay for readers that have begun. For readers other than Spark
a mounted directory has the answer as one file, `current.<format>`, replaced by a rename.

    step-<step>-<writer>-<n>.<format>   changes of a step
    current.<format>                    the answer, for readers other than Spark
    _view=<version>-<run>-<n>           files of one answer
    _spark_metadata/<version>.compact   the files of one answer; the newest holds
    _penstock/flows/<flow>              a flow has written here
    _penstock/...                       files being written
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import PurePath
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from penstock.errors import DataError, StateError
from penstock.spark.hadoop import HadoopDirectory

STAGED = "_penstock"
FLOWS = f"{STAGED}/flows"
POINTERS = "_spark_metadata"
CURRENT = "current"
LOG_VERSION = "v1"
"""Of the format in which Spark's streaming file sink lists its files."""


def was_written_by(directory: HadoopDirectory, flow: str) -> bool:
    """Whether a flow has written files into the directory."""
    return directory.exists(f"{FLOWS}/{flow}")


def has_view(directory: HadoopDirectory) -> bool:
    """Whether the directory holds a view of some flow."""
    return bool(directory.names(under=FLOWS)) and bool(directory.names(under=POINTERS))


def _mark(directory: HadoopDirectory, flow: str) -> None:
    directory.create()
    if not was_written_by(directory, flow):
        directory.write(f"{FLOWS}/{flow}", "")
        for folder in (STAGED, ""):
            directory.sync_names(folder)


def _clear(directory: HadoopDirectory, pattern: str) -> None:
    """Remove files that an earlier run was writing when it ended."""
    for name in directory.names(pattern, under=STAGED):
        directory.delete(f"{STAGED}/{name}")


class ChangeFiles:
    """Appends every step's changes as files.

    A file's name holds its step and its writer: a repeated step replaces what it wrote before.
    `fence` raises if the flow may not write any more.
    """

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        kind: str,
        flow: str,
        writer: str,
        options: Mapping[str, str],
        fence: Callable[[], None] = lambda: None,
    ) -> None:
        self._spark, self._path, self._kind, self._options = spark, path, kind, options
        self._flow, self._writer, self._fence = flow, writer, fence
        self._run = secrets.token_hex(4)

    def prepare(self, schema: str) -> None:
        """Make the directory."""
        directory = HadoopDirectory(self._spark, self._path)
        if directory.names(under=POINTERS):
            raise DataError(
                f"{directory.path} holds a view, or the output of a streaming query of Spark's: "
                "readers would not see files beside it",
                hint="write changes to another path",
            )
        _mark(directory, self._flow)
        _clear(directory, f"*-{self._writer}-*")

    def __call__(self, frame: DataFrame, step: int) -> None:
        directory = HadoopDirectory(self._spark, self._path)
        staged = f"{STAGED}/{step:012d}-{self._writer}-{self._run}"
        parts = _staged(directory, frame, staged, self._kind, self._options)
        self._fence()
        prefix = f"step-{step:012d}-{self._writer}-"
        before = directory.names(f"{prefix}*")
        made = [f"{prefix}{number}{_ending(part)}" for number, part in enumerate(parts)]
        for part, name in zip(parts, made, strict=True):
            directory.move(f"{staged}/{part}", name)
        for name in before:
            if name not in made:
                directory.delete(name)
        directory.sync_names()
        directory.delete(staged)


class ViewFiles:
    """Keeps the current answer in a directory that holds nothing else.

    `retention`: for how many milliseconds files of a replaced answer stay for readers. `fence` raises if the flow may not
    write any more.
    """

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        kind: str,
        flow: str,
        options: Mapping[str, str],
        retention: int,
        fence: Callable[[], None] = lambda: None,
    ) -> None:
        self._spark, self._path, self._kind, self._options = spark, path, kind, options
        self._flow, self._retention, self._fence = flow, retention, fence
        self._run = secrets.token_hex(4)
        self._version: int | None = None
        """The last answer published; None: by another run, or none at all."""

    def prepare(self, schema: str) -> None:
        """Make the directory; readers find an empty answer there until the first step, or the last one."""
        directory = HadoopDirectory(self._spark, self._path)
        known = bool(directory.names(under=POINTERS))
        for name in directory.names():
            if not name.startswith(("_", ".")) and not (known and name.startswith(f"{CURRENT}.")):
                raise DataError(
                    f"{directory.path} holds {name}, which no view wrote",
                    hint="name a path or table with nothing else in it",
                )
        _mark(directory, self._flow)
        _clear(directory, "view-*")
        self._version = _newest(directory)
        for name in directory.names("_view=*"):
            if self._version is None or _version_of(name) > self._version:
                directory.delete(name)  # a run that died was about to publish it
        if self._version is None:
            self(self._spark.createDataFrame([], schema), 0)

    def __call__(self, frame: DataFrame, step: int) -> None:
        directory = HadoopDirectory(self._spark, self._path)
        before = _newest(directory)
        if before != self._version:
            raise StateError(
                f"{directory.path} is written by another flow or query",
                hint="give each view a path or table of its own",
            )
        version = 0 if before is None else before + 1
        staged = f"{STAGED}/view-{version:012d}-{self._run}"
        parts = _staged(directory, frame.coalesce(1), staged, self._kind, self._options)
        self._fence()
        made = []
        for number, part in enumerate(parts):
            name = f"_view={version:012d}-{self._run}-{number}{_codec(part, self._kind)}"
            directory.move(f"{staged}/{part}", name)
            made.append(name)
        directory.sync_names()
        entries = [_entry(directory.status(name)) for name in made]
        directory.write(f"{POINTERS}/{version}.compact", "\n".join([LOG_VERSION, *entries]))
        if version == 0:
            directory.sync_names()
        self._version = version
        if directory.local is not None and len(parts) == 1:
            _put_current(directory, made[0], f"{CURRENT}.{self._kind}{_codec(parts[0], self._kind)}")
        directory.delete(staged)
        self._expire(directory)

    def _expire(self, directory: HadoopDirectory) -> None:
        """Delete answers that were replaced long enough ago, by the clock of the file system.

        Two entries stay in any case: Spark tells from them that each entry stands for itself.
        """
        times = {_version_of(n): at for n, at in directory.modified("*.compact", POINTERS).items()}
        versions = sorted(times)
        gone = [
            version
            for version, follower in pairwise(versions[:-1])
            if times[versions[-1]] - times[follower] > self._retention
        ]
        for version in gone:
            directory.delete(f"{POINTERS}/{version}.compact")
            for name in directory.names(f"_view={version:012d}-*"):
                directory.delete(name)


def _staged(
    directory: HadoopDirectory, frame: DataFrame, staged: str, kind: str, options: Mapping[str, str]
) -> list[str]:
    """Write a frame's files under a hidden name and flush them; their names in order."""
    target = f"{directory.path}/{staged}"
    frame.write.format(kind).options(**options).mode("overwrite").save(target)
    parts = directory.names("part-*", under=staged)
    directory.sync(f"{staged}/{part}" for part in parts)
    return parts


def _newest(directory: HadoopDirectory) -> int | None:
    found = [_version_of(name) for name in directory.names("*.compact", POINTERS)]
    return max(found, default=None)


def _version_of(name: str) -> int:
    found = re.match(r"(?:_view=)?(\d+)", name)
    return int(found[1]) if found else -1


def _entry(status: Any) -> str:
    """A file as Spark's streaming file sink lists it."""
    return json.dumps(
        {
            "path": str(status.getPath().toUri().toString()),
            "size": int(status.getLen()),
            "isDir": False,
            "modificationTime": int(status.getModificationTime()),
            "blockReplication": int(status.getReplication()),
            "blockSize": int(status.getBlockSize()),
            "action": "add",
        },
        separators=(",", ":"),
    )


def _put_current(directory: HadoopDirectory, name: str, current: str) -> None:
    """Show an answer's one file under a name that stays; readers that have the last one open keep it."""
    home = directory.local
    assert home is not None
    made = home / f".{current}.tmp"
    made.unlink(missing_ok=True)
    try:
        made.hardlink_to(home / name)
    except OSError:  # no links on this file system
        shutil.copyfile(home / name, made)
        directory.sync([made.name])
    made.replace(home / current)
    for other in home.glob(f"{CURRENT}.*"):
        if other.name != current:
            other.unlink()
    directory.sync_names()


def _ending(name: str) -> str:
    """Of a file that Spark has written: the codec and the format."""
    return name[name.index(".") :] if "." in name else ""


def _codec(name: str, kind: str) -> str:
    """What of the ending tells readers how to decompress the file; the format is left out."""
    last = PurePath(name).suffix
    return "" if last in ("", f".{kind}", ".txt") else last
