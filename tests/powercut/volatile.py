"""A file system in memory that knows what a power cut would leave of it.

Two trees share their inodes: the one that programs see, and the one that is on disk. A file's
content reaches the disk when the file is synced, a directory's entries when the directory is.
`crashed` gives one of the states that POSIX allows after a cut: what was synced, and of the rest
anything — renames without the ones before them, files that are empty, cut off, or full of zeros.
"""

from __future__ import annotations

import errno
import random
import stat
import time
from dataclasses import dataclass, field
from enum import Enum

ROOT = 1


class Loss(Enum):
    """What becomes of what was not synced."""

    ALL = "all of it is lost"
    SOME = "any part of it is lost"
    NONE = "nothing is lost: the programs were killed, the machine ran on"


@dataclass(slots=True, eq=False)
class Inode:
    number: int
    mode: int
    content: bytearray = field(default_factory=bytearray)
    on_disk: bytes | None = None
    """A file's content when it was last synced."""
    entries: dict[str, Inode] = field(default_factory=dict)
    entries_on_disk: dict[str, Inode] = field(default_factory=dict)
    links: int = 0
    target: str = ""
    uid: int = 0
    gid: int = 0
    atime: float = field(default_factory=time.time)
    mtime: float = field(default_factory=time.time)
    ctime: float = field(default_factory=time.time)

    @property
    def is_dir(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)

    @property
    def size(self) -> int:
        return len(self.target) if self.target else len(self.content)

    def touch(self) -> None:
        self.mtime = self.ctime = time.time()


@dataclass(frozen=True, slots=True)
class Entry:
    """An operation on names that no directory sync has made durable: entries taken out and put in."""

    removed: tuple[tuple[Inode, str, Inode], ...] = ()
    added: tuple[tuple[Inode, str, Inode], ...] = ()

    def concerns(self, directory: Inode) -> bool:
        return any(where is directory for where, _, _ in (*self.removed, *self.added))

    def apply(self) -> None:
        for where, name, inode in self.removed:
            if where.entries_on_disk.get(name) is inode:
                del where.entries_on_disk[name]
        for where, name, inode in self.added:
            where.entries_on_disk[name] = inode


class VolatileFileSystem:
    """Inodes by number; numbers are never used twice, also not after a crash."""

    def __init__(self, first: int = ROOT + 1) -> None:
        self.next = first
        self.root = Inode(ROOT, stat.S_IFDIR | 0o755, links=2)
        self.inodes = {ROOT: self.root}
        self.pending: list[Entry] = []
        self.operations = 0
        """Changes and syncs so far."""
        self.cut_at: int | None = None
        """The operation with which the power fails."""

    # ------------------------------------------------------------------ power

    @property
    def is_off(self) -> bool:
        return self.cut_at is not None and self.operations >= self.cut_at

    def _operate(self) -> None:
        """Count an operation; it fails if the power does."""
        if self.is_off:
            raise OSError(errno.EIO, "no power")
        self.operations += 1
        if self.is_off:
            raise OSError(errno.EIO, "no power")

    def sync_all(self) -> None:
        """Everything there is reaches the disk."""
        for entry in self.pending:
            entry.apply()
        self.pending = []
        for inode in self.inodes.values():
            inode.on_disk = bytes(inode.content)

    def crashed(self, loss: Loss, rng: random.Random) -> VolatileFileSystem:
        """What is there when the power is back."""
        for entry in self.pending:
            if loss is Loss.NONE or (loss is Loss.SOME and rng.random() < 0.5):
                entry.apply()
        made = VolatileFileSystem(self.next)
        copies = {ROOT: made.root}
        left = [self.root]
        while left:
            old = left.pop()
            new = copies[old.number]
            for name, inode in old.entries_on_disk.items():
                copy = copies.get(inode.number)
                if copy is None:
                    copy = copies[inode.number] = made.new(inode.mode)
                    copy.uid, copy.gid, copy.target = inode.uid, inode.gid, inode.target
                    copy.content = bytearray(_survivor(inode, loss, rng))
                    if inode.is_dir:
                        left.append(inode)
                new.entries[name] = copy
                copy.links += 2 if copy.is_dir else 1
            new.entries_on_disk = dict(new.entries)
        made.sync_all()
        return made

    # ------------------------------------------------------------------ inodes

    def new(self, mode: int) -> Inode:
        inode = Inode(self.next, mode)
        self.inodes[self.next] = inode
        self.next += 1
        return inode

    def at(self, number: int) -> Inode:
        try:
            return self.inodes[number]
        except KeyError:
            raise OSError(errno.ESTALE, "of before the power cut") from None

    def child(self, parent: Inode, name: str) -> Inode:
        try:
            return parent.entries[name]
        except KeyError:
            raise OSError(errno.ENOENT, name) from None

    # ------------------------------------------------------------------ names

    def create(self, parent: Inode, name: str, mode: int) -> Inode:
        self._operate()
        if name in parent.entries:
            raise OSError(errno.EEXIST, name)
        inode = self.new(mode)
        self._add(parent, name, inode)
        return inode

    def link(self, inode: Inode, parent: Inode, name: str) -> None:
        self._operate()
        if name in parent.entries:
            raise OSError(errno.EEXIST, name)
        self._add(parent, name, inode)

    def remove(self, parent: Inode, name: str, *, directory: bool) -> None:
        self._operate()
        inode = self.child(parent, name)
        if inode.is_dir != directory:
            raise OSError(errno.ENOTDIR if directory else errno.EISDIR, name)
        if inode.entries:
            raise OSError(errno.ENOTEMPTY, name)
        del parent.entries[name]
        inode.links -= 2 if directory else 1
        self._changed(Entry(removed=((parent, name, inode),)))

    def rename(self, parent: Inode, name: str, other: Inode, new: str, *, replace: bool) -> None:
        self._operate()
        inode = self.child(parent, name)
        over = other.entries.get(new)
        if over is inode:
            return
        if over is not None:
            if not replace:
                raise OSError(errno.EEXIST, new)
            if over.is_dir and over.entries:
                raise OSError(errno.ENOTEMPTY, new)
            over.links -= 2 if over.is_dir else 1
        del parent.entries[name]
        other.entries[new] = inode
        self._changed(Entry(((parent, name, inode),), ((other, new, inode),)))

    def _add(self, parent: Inode, name: str, inode: Inode) -> None:
        parent.entries[name] = inode
        inode.links += 2 if inode.is_dir else 1
        self._changed(Entry(added=((parent, name, inode),)))

    def _changed(self, entry: Entry) -> None:
        for where, _, _ in (*entry.removed, *entry.added):
            where.touch()
        self.pending.append(entry)

    # ------------------------------------------------------------------ content

    def write(self, inode: Inode, offset: int, data: bytes) -> None:
        self._operate()
        if len(inode.content) < offset:
            inode.content.extend(bytes(offset - len(inode.content)))
        inode.content[offset : offset + len(data)] = data
        inode.touch()

    def resize(self, inode: Inode, size: int) -> None:
        self._operate()
        if size < len(inode.content):
            del inode.content[size:]
        else:
            inode.content.extend(bytes(size - len(inode.content)))
        inode.touch()

    # ------------------------------------------------------------------ syncs

    def sync(self, inode: Inode) -> None:
        """A file's content, or a directory's entries, reach the disk."""
        self._operate()
        if not inode.is_dir:
            inode.on_disk = bytes(inode.content)
            return
        kept = []
        for entry in self.pending:
            if entry.concerns(inode):
                entry.apply()
            else:
                kept.append(entry)
        self.pending = kept


def _survivor(inode: Inode, loss: Loss, rng: random.Random) -> bytes:
    """A file's content after a cut."""
    now, then = bytes(inode.content), inode.on_disk
    if now == then or loss is Loss.NONE:
        return now
    if loss is Loss.ALL:
        return then or b""
    cut = rng.randrange(len(now) + 1)
    return rng.choice([then or b"", now, now[:cut], now[:cut] + bytes(len(now) - cut)])
