"""By which level waiting rows go: their own for ever, what they promise until the designated stop."""

from __future__ import annotations

import numpy as np

from penstock.state.priority_queue import (
    BACK_BURNER,
    DESIGNATED,
    LEVEL,
    PROMISE,
    SLOTS,
    degrade,
    going_by,
)

NONE = BACK_BURNER


def rows(*told: tuple[int, int, int]) -> np.ndarray:
    made = np.zeros((SLOTS + 1, len(told)), np.int64)
    made[[LEVEL, PROMISE, DESIGNATED]] = np.array(told).T
    return made


def test_the_better_of_both_counts_as_far_as_it_is_active() -> None:
    waiting = rows((1, NONE, -1), (NONE, 1, 2), (3, 2, 2), (2, 3, 2), (NONE, NONE, -1))
    assert going_by(waiting, {1, 2, 3}).tolist() == [1, 1, 2, 2, NONE]
    assert going_by(waiting, {2}).tolist() == [NONE, NONE, 2, 2, NONE]
    assert going_by(waiting, {1, 3}).tolist() == [1, 1, 3, 3, NONE]
    assert going_by(waiting, set()).tolist() == [NONE] * 5


def test_a_promise_ends_at_the_designated_stop() -> None:
    waiting = rows((3, 1, 1), (NONE, 1, 2), (2, NONE, -1))
    degrade(waiting, 0)
    assert waiting[PROMISE].tolist() == [1, 1, NONE]
    degrade(waiting, 1)
    assert waiting[LEVEL].tolist() == [3, NONE, 2], "a level stays"
    assert waiting[PROMISE].tolist() == [NONE, 1, NONE]
    assert waiting[DESIGNATED].tolist() == [-1, 2, -1]
