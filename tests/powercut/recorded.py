"""A file system that loses at a power cut what was not synced.

Every operation of this process on names under `root` is recorded as it is carried out. At a cut, `after_cut` makes a folder with
what a disk may hold then: names that a directory sync has fixed, any part of those made, moved or removed since (in any order),
and of files that were never synced nothing, the beginning, or all.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OPERATIONS = ("open", "fsync", "rename", "replace", "link", "unlink", "remove", "mkdir", "rmdir")


class PowerCut(BaseException):
    """The machine is off; nothing that is done from now on reaches the disk."""


@dataclass(eq=False)
class File:
    path: str
    synced: bytes | None = None
    """Its content on disk; None: it was never synced."""


@dataclass(eq=False)
class Folder:
    path: str
    names: dict[str, File | Folder] = field(default_factory=dict)
    """On disk."""
    since: list[list[tuple[str, File | Folder | None]]] = field(default_factory=list)
    """Changes of names since the last sync, each atomic: what a name is from then on, None for removed."""


class Disk:
    """Records what happens under `root`, and cuts the power before operation number `cut`."""

    def __init__(self, root: Path, cut: int | None = None) -> None:
        self.root = str(root)
        self.done = 0
        """Operations on the disk so far."""
        self._cut = cut
        self._lock = threading.RLock()
        self._real: dict[str, Callable[..., Any]] = {}
        self._now: dict[str, File | Folder] = {self.root: Folder(self.root)}
        """Everything under the root by its path, as processes see it."""
        self._load(root)

    def _load(self, folder: Path) -> None:
        """What is there at the beginning is on disk."""
        known = self._now[str(folder)]
        assert isinstance(known, Folder)
        for place in folder.iterdir():
            if place.is_dir():
                self._now[str(place)] = known.names[place.name] = Folder(str(place))
                self._load(place)
            else:
                self._now[str(place)] = known.names[place.name] = File(str(place), place.read_bytes())

    # ------------------------------------------------------------------ recording

    @contextmanager
    def powered(self) -> Iterator[None]:
        """Operations of this process go through here, until the cut."""
        self._real = {name: getattr(os, name) for name in OPERATIONS}
        try:
            for name in OPERATIONS:
                setattr(os, name, self._recorded(name))
            yield
        finally:
            for name, real in self._real.items():
                setattr(os, name, real)

    def _recorded(self, name: str) -> Callable[..., Any]:
        real, note = self._real[name], getattr(self, f"_{name}")

        def operation(*given: Any, **more: Any) -> Any:
            with self._lock:
                path = self._path(given[0], more.get("dir_fd"))
                if path is None or (name == "open" and not given[1] & os.O_CREAT):
                    return real(*given, **more)
                if self._cut is not None and self.done + 1 >= self._cut:
                    raise PowerCut
                self.done += 1
                was_there = path in self._now
                # Nothing here needs a real sync: the power stays on.
                result = real(*given, **more) if name != "fsync" else None
                note(path, was_there, *given[1:2])
                return result

        return operation

    def _path(self, given: Any, folder: int | None) -> str | None:
        """Where under the root; None: elsewhere."""
        if isinstance(given, int):
            path = str(Path(f"/proc/self/fd/{given}").readlink())
        else:
            above = Path.cwd() if folder is None else Path(f"/proc/self/fd/{folder}").readlink()
            path = str(above / os.fspath(given))
        return path if path == self.root or path.startswith(self.root + os.sep) else None

    def _change(self, *changes: tuple[str, File | Folder | None]) -> None:
        """One atomic change of names, of one folder or of several."""
        by_folder: dict[str, list[tuple[str, File | Folder | None]]] = {}
        for path, what in changes:
            if what is None:
                self._now.pop(path, None)
            else:
                self._now[path] = what
            above, name = os.path.split(path)
            by_folder.setdefault(above, []).append((name, what))
        for above, named in by_folder.items():
            folder = self._now[above]
            assert isinstance(folder, Folder)
            folder.since.append(named)

    def _open(self, path: str, was_there: bool, _: int) -> None:
        if not was_there:
            self._change((path, File(path)))

    def _mkdir(self, path: str, _: bool, *__: Any) -> None:
        self._change((path, Folder(path)))

    def _unlink(self, path: str, *_: Any) -> None:
        self._change((path, None))

    _remove = _rmdir = _unlink

    def _rename(self, path: str, _: bool, to: Any) -> None:
        moved = self._now[path]
        moved.path = os.fspath(to)
        self._change((os.fspath(to), moved), (path, None))

    _replace = _rename

    def _link(self, path: str, _: bool, to: Any) -> None:
        self._now[path].path = os.fspath(to)
        self._change((os.fspath(to), self._now[path]))

    def _fsync(self, path: str, *_: Any) -> None:
        found = self._now[path]
        if isinstance(found, File):
            found.synced = Path(path).read_bytes()
        else:
            found.names, found.since = _after(found.names, found.since), []

    # ------------------------------------------------------------------ the cut

    def after_cut(self, place: Path, rng: random.Random) -> None:
        """Make in `place` what the disk holds if the power goes now."""
        self._make(self._now[self.root], place, rng, rng.choice((0.0, 0.5, 0.5, 0.9, 1.0)))

    def _make(self, found: File | Folder, place: Path, rng: random.Random, kept: float) -> None:
        if isinstance(found, Folder):
            place.mkdir()
            changes = [change for change in found.since if rng.random() < kept]
            for name, what in _after(found.names, changes).items():
                self._make(what, place / name, rng, kept)
        elif found.synced is not None:
            place.write_bytes(found.synced)
        else:
            there = Path(found.path)
            content = there.read_bytes() if there.exists() else b""
            place.write_bytes(content[: rng.choice((0, rng.randrange(len(content) + 1), len(content)))])


def _after(
    names: dict[str, File | Folder], changes: list[list[tuple[str, File | Folder | None]]]
) -> dict[str, File | Folder]:
    found = dict(names)
    for change in changes:
        for name, what in change:
            if what is None:
                found.pop(name, None)
            else:
                found[name] = what
    return found
