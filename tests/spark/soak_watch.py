"""What is looked at while a flow soaks, and how it is judged.

A figure is flat if its median over the last fifth of the run is at most a tenth, and a small constant, above the median over
the second fifth; the first fifth is for warming up. Of Spark's own process not the resident size is judged, which a
collector lets grow up to the limit it was given, but the heap that is in use right after a full collection.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tests.chaos.campaign import children

EVERY = 5.0
COLLECT = 6
"""Full collections of Spark's heap: one for so many samples."""
MB = 1 << 20
SLACK = {
    "host": 8.0, "driver MB": 8.0, "workers MB": 8.0, "heap MB": 16.0, "state MB": 1.0,
    "checkpoint on disk MB": 64.0, "latency ms": 50.0, "lag rows": 200_000.0,
}  # fmt: skip
"""By the beginning of a figure's name: what it may rise by, beside a tenth. Names without an entry are only told."""


class Watch:
    """Samples of one run, taken by a thread."""

    def __init__(self, spark: Any, handle: Any, checkpoint: Path, lag: Any) -> None:
        self._heap = spark._jvm.java.lang.management.ManagementFactory.getMemoryMXBean()
        self._java = spark._jvm.java.lang.System
        self._handle, self._checkpoint, self._lag = handle, checkpoint, lag
        self.samples: list[dict[str, float]] = []
        self._stop = threading.Event()
        self._seen = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        began = time.monotonic()
        while not self._stop.wait(max(began + EVERY * (1 + len(self.samples)) - time.monotonic(), 0)):
            self.samples.append({"seconds": time.monotonic() - began, **self.sample()})

    def stop(self) -> list[dict[str, float]]:
        self._stop.set()
        self._thread.join(60)
        return self.samples

    def sample(self) -> dict[str, float]:
        found: dict[str, float] = {"driver MB": resident(os.getpid()), "lag rows": float(self._lag())}
        workers = []
        for process in children(os.getpid()):
            line = command(process)
            if line and Path(line[0]).name == "java":
                found["jvm MB"] = resident(process)
            elif "pyspark.daemon" in line:
                workers.append(resident(process))
        found |= {"workers MB": sum(workers), "workers": float(len(workers))}
        for cell, process in hosts(self._checkpoint).items():
            found[f"host {cell} MB"] = resident(process)
        if len(self.samples) % COLLECT == 0:
            self._java.gc()
            found["heap MB"] = self._heap.getHeapMemoryUsage().getUsed() / MB
        steps = [p for p in self._handle.recentProgress if p["step"] > self._seen]
        if steps:
            self._seen = steps[-1]["step"]
            found["latency ms"] = median(p["durationMs"]["cells"] + p["durationMs"]["sinks"] for p in steps)
            found["state MB"] = steps[-1]["stateBytes"] / MB
            found["step"] = float(self._seen)
        for name, (files, size) in folders(self._checkpoint).items():
            found[f"files of {name}"] = float(files)
            found[f"{name} on disk MB"] = size / MB
        return found


def resident(process: int) -> float:
    """Resident size in MB; 0 of a process that is gone."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / MB


def command(process: int) -> list[str]:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def hosts(checkpoint: Path) -> dict[int, int]:
    """The cells' hosts: number of the cell → process."""
    found = {}
    for entry in Path("/proc").iterdir():
        line = command(int(entry.name)) if entry.name.isdigit() else []
        if "penstock.spark.worker_process" in line and str(checkpoint) in line:
            found[int(line[line.index(str(checkpoint)) + 1])] = int(entry.name)
    return found


def folders(checkpoint: Path) -> dict[str, tuple[int, int]]:
    """Files and bytes in each part of a checkpoint, and in all of it."""
    found = {"checkpoint": (0, 0)}
    for place, _, names in os.walk(checkpoint):
        part = Path(place).relative_to(checkpoint).parts[:1]
        for name in names:
            try:
                size = (Path(place) / name).stat().st_size
            except OSError:
                continue  # tidied up meanwhile
            for key in ("checkpoint", *part):
                files, total = found.get(key, (0, 0))
                found[key] = (files + 1, total + size)
    return found


# ---------------------------------------------------------------------- judging


def judged(samples: list[dict[str, float]]) -> dict[str, dict[str, Any]]:
    """Each figure over the run: medians of its first, second and last fifth, its slope, and whether it is flat."""
    names = dict.fromkeys(name for s in samples for name in s if name != "seconds")
    return {name: figure(name, samples) for name in names}


def figure(name: str, samples: list[dict[str, float]]) -> dict[str, Any]:
    end = samples[-1]["seconds"]
    had = [(s["seconds"], s[name]) for s in samples if name in s]
    fifths = [[value for at, value in had if k * end / 5 <= at <= (k + 1) * end / 5] for k in range(5)]
    first, second, last = (median(f) if f else None for f in (fifths[0], fifths[1], fifths[4]))
    late = [(at, value) for at, value in had if at >= end / 5]
    slope = float(np.polyfit(*zip(*late, strict=True), 1)[0]) * 3600 if len(late) > 2 else None
    found: dict[str, Any] = {"first": first, "second": second, "last": last, "per_hour": slope}
    slack = next((more for word, more in SLACK.items() if name.startswith(word)), None)
    if slack is not None:
        found["flat"] = second is not None and last is not None and last <= 1.1 * second + slack
    return {key: round(value, 2) if isinstance(value, float) else value for key, value in found.items()}
