"""The executions of a plan, each with settings that make its structures work."""

from __future__ import annotations

from typing import Any

EXECUTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"eager": 1},
    {"eager": 3, "partitions": 3},
    {"lazy": 1.0, "partitions": 2},
    {"expiry": "direct"},
    {"expiry": "direct", "eager": 1, "lazy": 0.0},
    {"expiry": "hybrid"},
    {"expiry": "hybrid", "eager": 2},
    {"expiry": "negative"},
    {"expiry": "negative", "eager": 2},
)


def drawn(seed: int) -> dict[str, Any]:
    """One of them, for a few seeds already of each kind; of the others half get the usual one, half trees of joins."""
    order = sorted(EXECUTIONS, key=lambda one: (len(one), EXECUTIONS.index(one)))
    kinds = [one for one in order if "expiry" in one] + [one for one in order if "expiry" not in one]
    if seed % 2:
        return kinds[seed // 2 % len(kinds)]
    return {"join": "tree", "tree": "bushy"} if seed % 4 == 0 else {}
