"""Fencing: a checkpoint belongs to the driver that claimed it last, and every other driver stops.

    epochs/<number>-<token>.json     one file a claim: which process, where and when

An epoch is the name of its file; epochs are ordered by name, and the greatest is in force. No two drivers make the same name, so claims
need no exclusive creation, which object stores lack: of two at the same moment both see which is greater.

Invariant  a driver writes `steps/<n>` and then looks whether it still holds the checkpoint, before any cell is asked; one that takes
           over claims first and reads `steps/` afterwards. So either the new driver sees the step and goes on with it, or the
           old one sees the claim and never asks for it. Cells refuse requests of a driver that no longer holds the checkpoint.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import time

from penstock.errors import StateError
from penstock.spark.checkpoint import read_json, write_json
from penstock.spark.filesystem import Place

KEPT = 8
"""Old claims that are kept for inspection."""


def claim(root: Place) -> str:
    """Take a checkpoint over; the epoch from now on."""
    before = _epochs(root)
    number = int(before[-1].partition("-")[0]) + 1 if before else 1
    epoch = f"{number:08d}-{secrets.token_hex(6)}"
    told = {
        "host": socket.gethostname(),
        "process": os.getpid(),
        "time": time.strftime("%FT%TZ", time.gmtime()),
    }
    write_json(root / "epochs" / f"{epoch}.json", told)
    for old in before[:-KEPT]:
        (root / "epochs" / f"{old}.json").unlink(missing_ok=True)
    return epoch


def must_hold(root: Place, epoch: str) -> None:
    """Refuse to go on in an epoch that is over."""
    newest = max(_epochs(root), default="")
    if newest > epoch:
        raise superseded(root, newest)


def superseded(root: Place, newest: str) -> StateError:
    told = read_json(root / "epochs" / f"{newest}.json")
    return StateError(
        f"another driver has taken over the checkpoint {root}: process {told['process']} on {told['host']}, "
        f"started {told['time']}; this one stops",
        hint="run one driver for a checkpoint directory; nothing is lost, the other one goes on",
    )


def _epochs(root: Place) -> list[str]:
    folder = root / "epochs"
    if not folder.is_dir():
        return []
    found = (re.fullmatch(r"(\d{8}-\w+)\.json", place.name) for place in folder.iterdir())
    return sorted(match[1] for match in found if match)
