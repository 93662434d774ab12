"""Bits that flip in the checkpoint directory: whoever reads the file must say so."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.durability import snapshot
from penstock.errors import StateError
from penstock.spark.checkpoint import Store, read_json, read_segment

_READERS: dict[str, Callable[[Any], object]] = {
    ".json": read_json,
    ".arrow": read_segment,
    ".state": snapshot.read,
}
_KEPT = ("steps", "done", "declared", "cells", "flow.json")


def flipped(whole: bytes, rng: random.Random) -> bytes:
    """The same but for one bit."""
    content = bytearray(whole)
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(content)


def is_noticed(place: Path) -> bool:
    """Whether the file is refused."""
    try:
        _READERS[place.suffix](place)
    except StateError:
        return True
    return False


def newest(checkpoint: Path, cell: int, kind: str) -> Path | None:
    """The newest state of a cell if it has another one, or the newest step in its log that a state does not stand for."""
    store = Store(checkpoint)
    states, logs = store.states(cell), store.logs(cell)
    if kind == "state":
        return Path(str(store.state(cell, states[-1]))) if len(states) == 2 else None
    return Path(str(store.log(cell, logs[-1]))) if logs and logs[-1] > max(states, default=0) else None


def unnoticed(checkpoint: Path, times: int, rng: random.Random) -> tuple[int, list[str]]:
    """Flip bits of what the checkpoint holds, one at a time: how often, and where nobody said a word."""
    found = [
        place
        for kept in _KEPT
        for place in ([checkpoint / kept] if kept.endswith(".json") else (checkpoint / kept).rglob("*"))
        if place.suffix in _READERS and not place.name.startswith(".")
    ]
    missed = []
    by_kind = [[p for p in found if p.suffix == kind] for kind in _READERS]
    tried = [rng.choice(places) for places in by_kind if places for _ in range(times)]
    for place in tried:
        with contextlib.ExitStack() as back:
            whole = place.read_bytes()
            back.callback(place.write_bytes, whole)
            place.write_bytes(flipped(whole, rng))
            if not is_noticed(place):
                missed.append(str(place))
    return len(tried), missed
