"""Names that users give: which are names, and how they become parts of paths."""

from __future__ import annotations

import hashlib
from urllib.parse import quote

MAX_NAME_LENGTH = 1000
"""Characters of a name."""
MAX_PATH_PART = 120
"""Bytes of a name in a path; file systems take 255, and temporary names are longer."""


def fault(name: str) -> str | None:
    r"""What is wrong with a name; None: nothing is.

    >>> fault("größe [cm]"), fault("a" + chr(0x202E) + "b")
    (None, "a name cannot hold '\\u202e', which does not show")
    """
    if not name.strip():
        return "a name cannot be empty"
    if len(name) > MAX_NAME_LENGTH:
        return f"a name cannot have more than {MAX_NAME_LENGTH:,} characters, and this one has {len(name):,}"
    hidden = next((character for character in name if not character.isprintable()), None)
    return None if hidden is None else f"a name cannot hold {hidden!a}, which does not show"


def shown(text: str) -> str:
    r"""A text with what does not show written out.

    >>> shown("a" + chr(0x202E))
    'a\\u202e'
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def path_part(name: str) -> str:
    """A name as one part of a path, on every file system: no separator, no `..`, nothing hidden, bounded in length.

    Different names have different parts: `+`, which leads a digest, is in no name that is written out.

    >>> path_part("trades"), path_part("../.."), path_part("_x"), path_part("a b")
    ('trades', '%2E%2E%2F%2E%2E', '%5Fx', 'a%20b')
    >>> len(path_part("é" * 300))
    120
    """
    made = quote(name, safe="").replace(".", "%2E")
    if made.startswith(("_", "~")):  # Spark leaves out files and folders that begin with a low line
        made = f"%{ord(made[0]):02X}{made[1:]}"
    if len(made) <= MAX_PATH_PART:
        return made
    digest = hashlib.sha256(name.encode()).hexdigest()[:40]
    return f"{made[: MAX_PATH_PART - 41]}+{digest}"
