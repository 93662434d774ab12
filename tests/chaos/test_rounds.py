"""Rounds of a campaign: counted together, and each run by one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.chaos.campaign import added, claimed, in_words


def result(**given: Any) -> dict[str, Any]:
    return {"kills": {"driver": 1, "worker": 2}, "hangs": 0, "failures": [], **given}


def test_rounds_are_added_by_kind() -> None:
    total = added([result(), result(kills={"driver": 2, "python": 1}, hangs=1, failures=["a: 1 lost"])])
    assert total == {"kills": {"driver": 3, "worker": 2, "python": 1}, "hangs": 1, "failures": ["a: 1 lost"]}
    assert in_words(total).startswith("6 kills")
    assert "(50% of them drivers)" in in_words(total)
    assert in_words(total).endswith("hangs 1; 1 failures")


def test_a_round_is_run_by_one_process(tmp_path: Path) -> None:
    place = tmp_path / "round.lock"
    with claimed(place) as first:
        assert first
        with claimed(place) as second:
            assert not second
    with claimed(place) as again:
        assert again
