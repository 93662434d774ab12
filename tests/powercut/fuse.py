"""The FUSE protocol of the kernel, version 7.31, as far as a file system in memory needs it.

Spoken directly over /dev/fuse, so that nothing but the kernel is needed (and the right to mount).
Every name and attribute is looked up anew each time: the tree below may be exchanged at any moment.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Callable
from pathlib import Path

from tests.powercut.volatile import Inode, VolatileFileSystem

MAX_WRITE = 1 << 17
_LARGEST_REQUEST = MAX_WRITE + (1 << 14)
_IN = struct.Struct("<IIQQIIIHH")
_OUT = struct.Struct("<IiQ")
_ATTR = struct.Struct("<QQQQQQIIIIIIIIII")
_SETATTR = struct.Struct("<IIQQQQQQIIIIIIII")
_RENAME_NOREPLACE, _SIZE, _MODE, _UID, _GID = 1, 8, 1, 2, 4
_NO_ANSWER = frozenset({2, 36, 42})  # FORGET, INTERRUPT, BATCH_FORGET

_libc = ctypes.CDLL(None, use_errno=True)


def mount(place: Path) -> int:
    """Mount over an empty directory; the descriptor that requests come from."""
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40755,user_id={os.getuid()},group_id={os.getgid()},allow_other"
    if _libc.mount(b"penstock-test", bytes(place), b"fuse", 2 | 4, options.encode()):  # nosuid, nodev
        number = ctypes.get_errno()
        os.close(device)
        raise OSError(number, f"mount of {place}: {os.strerror(number)}")
    return device


def unmount(place: Path) -> None:
    _libc.umount2(bytes(place), 2)  # detached, whoever still has something open


class Server:
    """Answers the kernel's requests for `files`, one after the other."""

    def __init__(self, device: int, files: VolatileFileSystem) -> None:
        self.device = device
        self.files = files
        self._calls: dict[int, Callable[[int, bytes], bytes]] = {
            1: self._lookup, 3: self._getattr, 4: self._setattr, 5: self._readlink, 6: self._symlink,
            8: self._mknod, 9: self._mkdir, 10: self._unlink, 11: self._rmdir, 12: self._rename,
            13: self._link, 14: self._open, 15: self._read, 16: self._write, 17: self._statfs,
            18: self._nothing, 20: self._fsync, 25: self._nothing, 26: self._init, 27: self._open,
            28: self._readdir, 29: self._nothing, 30: self._fsync, 35: self._create,
            43: self._fallocate, 45: self._rename2,
        }  # fmt: skip

    def serve_one(self) -> bool:
        """Take and answer one request; False once the file system is unmounted."""
        try:
            request = os.read(self.device, _LARGEST_REQUEST)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR, errno.EAGAIN):
                return True  # interrupted before it was read
            if error.errno == errno.ENODEV:
                return False
            raise
        _, opcode, unique, node, *_ = _IN.unpack_from(request)
        if opcode in _NO_ANSWER:
            return True
        body, code = b"", 0
        try:
            call = self._calls.get(opcode)
            if call is None:
                raise OSError(errno.ENOSYS, f"operation {opcode}")
            if self.files.is_off and opcode not in (18, 26, 29):
                raise OSError(errno.EIO, "no power")
            body = call(node, request[_IN.size :])
        except OSError as error:
            code = -(error.errno or errno.EIO)
        try:
            os.write(self.device, _OUT.pack(_OUT.size + len(body), code, unique) + body)
        except OSError as error:
            if error.errno != errno.ENOENT:  # the caller was killed meanwhile
                raise
        return True

    # ------------------------------------------------------------------ answers

    def _entry(self, inode: Inode) -> bytes:
        return struct.pack("<QQQQII", inode.number, 0, 0, 0, 0, 0) + _attributes(inode)

    @staticmethod
    def _opened(flags: int = 0) -> bytes:
        return struct.pack("<QIi", 0, flags, 0)

    def _nothing(self, node: int, body: bytes) -> bytes:
        return b""

    def _init(self, node: int, body: bytes) -> bytes:
        return struct.pack("<IIIIHHIIHHI", 7, 31, 0, 32, 12, 9, MAX_WRITE, 1, 0, 0, 0) + bytes(28)

    # ------------------------------------------------------------------ names

    def _lookup(self, node: int, body: bytes) -> bytes:
        return self._entry(self.files.child(self.files.at(node), _names(body)[0]))

    def _mknod(self, node: int, body: bytes) -> bytes:
        mode, _, umask, _ = struct.unpack_from("<IIII", body)
        return self._made(node, body[16:], mode & ~umask)

    def _mkdir(self, node: int, body: bytes) -> bytes:
        mode, umask = struct.unpack_from("<II", body)
        return self._made(node, body[8:], stat.S_IFDIR | (mode & ~umask))

    def _create(self, node: int, body: bytes) -> bytes:
        _, mode, umask, _ = struct.unpack_from("<IIII", body)
        return self._made(node, body[16:], stat.S_IFREG | (mode & ~umask & 0o7777)) + self._opened()

    def _made(self, node: int, names: bytes, mode: int) -> bytes:
        made = self.files.create(self.files.at(node), _names(names)[0], mode)
        made.uid, made.gid = os.getuid(), os.getgid()
        return self._entry(made)

    def _symlink(self, node: int, body: bytes) -> bytes:
        name, target = _names(body)
        made = self.files.create(self.files.at(node), name, stat.S_IFLNK | 0o777)
        made.target = target
        return self._entry(made)

    def _readlink(self, node: int, body: bytes) -> bytes:
        return self.files.at(node).target.encode()

    def _link(self, node: int, body: bytes) -> bytes:
        (old,) = struct.unpack_from("<Q", body)
        inode = self.files.at(old)
        self.files.link(inode, self.files.at(node), _names(body[8:])[0])
        return self._entry(inode)

    def _unlink(self, node: int, body: bytes) -> bytes:
        self.files.remove(self.files.at(node), _names(body)[0], directory=False)
        return b""

    def _rmdir(self, node: int, body: bytes) -> bytes:
        self.files.remove(self.files.at(node), _names(body)[0], directory=True)
        return b""

    def _rename(self, node: int, body: bytes) -> bytes:
        (other,) = struct.unpack_from("<Q", body)
        return self._moved(node, other, body[8:], replace=True)

    def _rename2(self, node: int, body: bytes) -> bytes:
        other, flags, _ = struct.unpack_from("<QII", body)
        if flags & ~_RENAME_NOREPLACE:
            raise OSError(errno.EINVAL, "exchange")
        return self._moved(node, other, body[16:], replace=not flags & _RENAME_NOREPLACE)

    def _moved(self, node: int, other: int, names: bytes, *, replace: bool) -> bytes:
        old, new = _names(names)
        self.files.rename(self.files.at(node), old, self.files.at(other), new, replace=replace)
        return b""

    def _readdir(self, node: int, body: bytes) -> bytes:
        _, offset, size, *_ = struct.unpack_from("<QQIIQII", body)
        inode = self.files.at(node)
        listed = [(".", inode), ("..", inode), *inode.entries.items()]
        answer = b""
        for number, (name, child) in enumerate(listed[offset:], offset + 1):
            encoded = name.encode("utf-8", "surrogateescape")
            one = struct.pack("<QQII", child.number, number, len(encoded), child.mode >> 12) + encoded
            one += bytes(-len(one) % 8)
            if len(answer) + len(one) > size:
                break
            answer += one
        return answer

    # ------------------------------------------------------------------ content and attributes

    def _getattr(self, node: int, body: bytes) -> bytes:
        return bytes(16) + _attributes(self.files.at(node))

    def _setattr(self, node: int, body: bytes) -> bytes:
        valid, _, _, size, _, atime, mtime, _, _, _, _, mode, _, uid, gid, _ = _SETATTR.unpack_from(body)
        inode = self.files.at(node)
        if valid & _SIZE:
            self.files.resize(inode, size)
        if valid & _MODE:
            inode.mode = stat.S_IFMT(inode.mode) | stat.S_IMODE(mode)
        inode.uid = uid if valid & _UID else inode.uid
        inode.gid = gid if valid & _GID else inode.gid
        inode.atime = atime if valid & 16 else inode.atime
        inode.mtime = mtime if valid & 32 else inode.mtime
        return self._getattr(node, b"")

    def _open(self, node: int, body: bytes) -> bytes:
        self.files.at(node)
        return self._opened()

    def _read(self, node: int, body: bytes) -> bytes:
        _, offset, size, *_ = struct.unpack_from("<QQIIQII", body)
        return bytes(self.files.at(node).content[offset : offset + size])

    def _write(self, node: int, body: bytes) -> bytes:
        _, offset, size, *_ = struct.unpack_from("<QQIIQII", body)
        self.files.write(self.files.at(node), offset, body[40 : 40 + size])
        return struct.pack("<II", size, 0)

    def _fallocate(self, node: int, body: bytes) -> bytes:
        _, offset, length, mode, _ = struct.unpack_from("<QQQII", body)
        if mode:
            raise OSError(errno.EOPNOTSUPP, "only plain allocation")
        inode = self.files.at(node)
        if inode.size < offset + length:
            self.files.resize(inode, offset + length)
        return b""

    def _fsync(self, node: int, body: bytes) -> bytes:
        self.files.sync(self.files.at(node))
        return b""

    def _statfs(self, node: int, body: bytes) -> bytes:
        blocks = 1 << 20
        return struct.pack("<QQQQQIIII", blocks, blocks, blocks, blocks, blocks, 4096, 255, 4096, 0) + bytes(
            24
        )


def _names(body: bytes) -> list[str]:
    return [part.decode("utf-8", "surrogateescape") for part in body.split(b"\0")[:-1]]


def _attributes(inode: Inode) -> bytes:
    seconds = [int(at) for at in (inode.atime, inode.mtime, inode.ctime)]
    parts = [int((at % 1) * 1e9) for at in (inode.atime, inode.mtime, inode.ctime)]
    return _ATTR.pack(
        inode.number, inode.size, -(-inode.size // 512), *seconds, *parts,
        inode.mode, max(inode.links, 1), inode.uid, inode.gid, 0, 4096, 0,
    )  # fmt: skip
