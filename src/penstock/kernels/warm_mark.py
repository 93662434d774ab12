"""Whether `penstock warm` has compiled these kernels on this machine: it leaves a mark beside the cache."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

import numba
from llvmlite import binding

from penstock.kernels.compile import ix

MARK = "penstock.warm"


def is_warm() -> bool:
    """Cheap enough to ask whenever a flow starts."""
    mark = _mark()
    with contextlib.suppress(OSError):
        return mark is not None and mark.read_text(encoding="ascii") == _version()
    return False


def set_warm() -> None:
    """All kernels are compiled now; without a cache that can be written there is nothing to mark."""
    mark = _mark()
    if mark is not None:
        with contextlib.suppress(OSError):
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.write_text(_version(), encoding="ascii")


def _mark() -> Path | None:
    place = getattr(getattr(ix, "_cache", None), "cache_path", None)
    return None if place is None else Path(place) / MARK


def _version() -> str:
    """What a cached kernel is good for: these sources, this Numba, this processor."""
    sources = sorted(Path(__file__).parent.rglob("*.py"))
    parts = [f"{p} {p.stat().st_mtime_ns} {p.stat().st_size}" for p in sources]
    parts += [numba.__version__, binding.get_host_cpu_name()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
