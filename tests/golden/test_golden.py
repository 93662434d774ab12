"""Every `*.golden` beside this file, carried out and compared."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from golden import OUTPUTS, Player, Script  # noqa: E402  # found beside this file

UPDATE = os.environ.get("PENSTOCK_UPDATE_GOLDEN") == "1"
FILES = sorted(HERE.glob("*.golden"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_golden(path: Path) -> None:
    script = Script.read(path)
    player = Player()
    differs = []
    for i, section in enumerate(script.sections):
        following = script.sections[i + 1 : i + 2]
        got = player.play(section, may_fail=bool(following) and following[0].kind == "error")
        if section.kind not in OUTPUTS:
            continue
        if UPDATE:
            section.body = got or ""
        elif got != section.body:
            differs.append(
                f"{section.header()}\n--- the file says\n{section.body}\n--- the engine says\n{got}\n"
            )
    if UPDATE:
        script.write(path)
    assert not differs, "\n".join(differs)
