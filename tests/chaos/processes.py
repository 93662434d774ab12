"""The processes of a job, and what can be done to them."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

WORKER = "penstock.spark.worker_process"
"""In the command line of a worker process."""
MIB = 1 << 20


def processes(having: str) -> list[int]:
    """Processes whose command line has this text."""
    found = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [process for process in found if process != os.getpid() and having in command_line(process)]


def children(process: int) -> list[int]:
    """All processes below one."""
    below: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            below.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    left = list(below.get(process, []))
    while left:
        found.append(left.pop())
        left += below.get(found[-1], [])
    return found


def workers(checkpoint: Path, cell: int | None = None) -> list[int]:
    """Worker processes of a flow, or of one of its cells; more than one may be there for a moment."""
    place = f" {checkpoint} " if cell is None else f" {checkpoint} {cell} "
    return [process for process in processes(WORKER) if place in command_line(process)]


def python_workers(job: int) -> list[int]:
    """Python workers of a job's Spark, and the daemons that fork them."""
    return [process for process in children(job) if "-m pyspark." in command_line(process)]


def command_line(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def is_stopped(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
    except (OSError, IndexError):
        return False


def send(process: int, what: signal.Signals) -> bool:
    try:
        os.kill(process, what)
    except ProcessLookupError:
        return False
    return True


def kill(process: int) -> bool:
    return send(process, signal.SIGKILL)


def resident(process: int) -> int:
    """Bytes in memory."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def leave_no_memory(process: int) -> bool:
    """From now on the process gets next to no more memory: what it asks for next is refused."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[0])
        size = pages * resource.getpagesize() + MIB
        resource.prlimit(process, resource.RLIMIT_AS, (size, size))
    except (OSError, IndexError):
        return False
    return True
