"""A disk that is small enough to be filled: a tmpfs of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Self


class SmallDisk:
    """`size` in MiB, mounted at `place`; `mounted` is False where that is not allowed."""

    def __init__(self, place: Path, size: int) -> None:
        self.place = place
        self.ballast = place / "ballast"
        place.mkdir(parents=True, mode=0o700)
        mount = shutil.which("mount")
        options = f"size={size}m,mode=0700"
        self.mounted = (
            mount is not None
            and os.geteuid() == 0
            and not self._run(mount, "-t", "tmpfs", "-o", options, "tmpfs")
        )

    def _run(self, *command: str) -> int:
        return subprocess.run([*command, str(self.place)], check=False, capture_output=True).returncode

    def fill(self) -> None:
        """Until not a byte is left."""
        with contextlib.suppress(OSError), self.ballast.open("wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)) == size:
                        pass

    def free(self) -> None:
        self.ballast.unlink(missing_ok=True)

    def full_for(self, seconds: float) -> None:
        self.fill()
        try:
            time.sleep(seconds)
        finally:
            self.free()

    @staticmethod
    def remove(place: Path) -> None:
        """Unmount what a process that was killed has left mounted."""
        if place.is_mount():
            subprocess.run(["umount", "--lazy", str(place)], check=True, capture_output=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.mounted:
            self._run("umount", "--lazy")
            self.mounted = False
