"""More sources for a Spark query that has run: Spark refuses a checkpoint with offsets of fewer.

A file of Spark's offset log has a version, a line of settings, and then one line for every source in the order of the plan; `-` stands for a
source of which nothing has been read. So a source that is added behind the others begins with its first rows.
"""

from __future__ import annotations

from penstock.spark.filesystem import Place, whole

_VERSION = b"v1"
_NOTHING_READ = b"-"
READ_AT_START = 2
"""Of the newest batches Spark compares the offsets when it starts."""


def add_sources(checkpoint: Place, sources: int) -> None:
    """Let the last offsets tell of this many sources, if they tell of fewer."""
    folder = checkpoint / "offsets"
    if not folder.is_dir():
        return
    batches = sorted(int(place.name) for place in folder.iterdir() if place.name.isdecimal())
    for batch in batches[-READ_AT_START:]:
        place = folder / str(batch)
        lines = place.read_bytes().split(b"\n")
        missing = sources - (len(lines) - 2)
        if lines[0] == _VERSION and missing > 0:
            (folder / f".{batch}.crc").unlink(missing_ok=True)  # a checksum of what was there
            with whole(place) as file:
                file.write(b"\n".join([*lines, *[_NOTHING_READ] * missing]))
