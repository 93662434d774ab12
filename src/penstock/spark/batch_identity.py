"""Which rows a batch of Spark's has: digests of its offsets and files, from Spark's own logs in the checkpoint.

Spark numbers batches, and a step is recorded for a batch. Numbers alone do not say that a batch is the same: if Spark's logs go back,
by a partial restore or by hand, the same number comes again with other rows. So a step records what its batch was.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from penstock.errors import StateError
from penstock.spark.filesystem import Place

NOTHING_READ = "-"
"""The offset of a source that was added later."""
RESTORE = (
    "Spark's part of the checkpoint (spark/) and Penstock's have to be of the same moment: restore the whole directory from one "
    "backup, or start with another checkpoint directory"
)


@dataclass(frozen=True, slots=True)
class Batch:
    """Batch `number`: digests of where its sources begin and end, and of the files that file sources read."""

    number: int = -1
    start: str = ""
    end: str = ""
    files: str = ""

    def json(self) -> dict[str, Any]:
        return asdict(self)

    def must_repeat(self, before: Batch) -> None:
        """Refuse a batch that is not what the same number was."""
        if self != before:
            raise StateError(
                f"Spark's batch {self.number} is not what it was: a step holds other {_differing(self, before)} under this number. "
                "Spark's log of offsets has gone back; its rows would be lost",
                hint=RESTORE,
            )

    def must_follow(self, before: Batch) -> None:
        """Refuse a batch that does not begin where the one before has ended."""
        if self.number != before.number + 1:
            raise StateError(
                f"Spark's batch {self.number} comes after batch {before.number}: rows between them are in no step",
                hint=RESTORE,
            )
        if before.number >= 0 and self.start != before.end:
            raise StateError(
                f"Spark's batch {self.number} does not begin where batch {before.number} ended: rows would be lost or come twice",
                hint=RESTORE,
            )


def _differing(one: Batch, other: Batch) -> str:
    return "offsets" if (one.start, one.end) != (other.start, other.end) else "files"


def describe(spark: Place, number: int) -> Batch:
    """A batch that Spark is about to run; `spark` is Spark's checkpoint folder."""
    place = spark / "offsets" / str(number)
    end = _offsets(place)
    if end is None:
        raise StateError(f"{place} is not there: Spark writes it before it runs the batch", hint=RESTORE)
    start = _offsets(spark / "offsets" / str(number - 1)) if number else []
    files: list[str] = []
    for source, offset in enumerate(end):
        last = _log_offset(offset)
        if last is None:
            continue
        first = _log_offset(start[source]) if start and source < len(start) else None
        log = spark / "sources" / str(source)
        for entry in range(-1 if first is None else first, last):
            files += [f"{source} {path}" for path in sorted(_files(log, entry + 1))]
    return Batch(number, _digest(start or []), _digest(end), _digest(files))


def _digest(texts: list[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32] if texts else ""


def _offsets(place: Place) -> list[str] | None:
    """The offset of every source, as Spark writes it; None: there is no such batch."""
    try:
        lines = place.read_bytes().decode().splitlines()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{place}: {error.strerror or error}") from error
    # A version, and what the batch was run with, the time among it.
    found = [line for line in lines[1:] if '"batchTimestampMs"' not in line]
    while found and found[-1] == NOTHING_READ:
        found.pop()
    return found


def _log_offset(offset: str) -> int | None:
    """Of a file source: the last entry of its own log; None for other sources."""
    with contextlib.suppress(ValueError):
        told = json.loads(offset)
        if isinstance(told, dict) and told.keys() == {"logOffset"}:
            return int(told["logOffset"])
    return None


def _files(log: Place, entry: int) -> list[str]:
    """The files that an entry of a file source's log names."""
    place = log / str(entry)
    if not place.exists():
        compact = [re.fullmatch(r"(\d+)\.compact", p.name) for p in (log.iterdir() if log.is_dir() else ())]
        later = sorted(int(m[1]) for m in compact if m and int(m[1]) >= entry)
        if not later:
            return []
        place = log / f"{later[0]}.compact"
    mine = f'"batchId":{entry}'.encode()
    found = []
    for line in place.read_bytes().splitlines()[1:]:
        if mine in line:
            told = json.loads(line)
            if told["batchId"] == entry:
                found.append(str(told["path"]))
    return found
