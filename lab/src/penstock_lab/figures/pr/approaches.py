"""The resource allocations that are compared, by the names the dissertation has for them.

PR-Join   preferred results, with joins that make the results of one level at a time (chapter 7)
PR-Prune  the same with joins that make all results of a row at once (chapter 6)
PR        the same, and the basic optimizer
PP        promotion of rows that have a level themselves (chapter 4)
sem, rand, trad   semantic and random shedding, and none: as they come
"""

from __future__ import annotations

from typing import Any

from penstock_lab.searches.preference_basic import basic

PR_JOIN, PR_PRUNE, PR, PP, SEM, RAND, TRAD = "PR-Join", "PR-Prune", "PR", "PP", "sem", "rand", "trad"
ALLOCATION = {
    PR_JOIN: "prefer",
    PR_PRUNE: "prefer",
    PR: "prefer",
    PP: "promote",
    SEM: "semantic",
    RAND: "random",
    TRAD: "fifo",
}


def settle(pipeline: Any, approach: str) -> None:
    """Let a running query do as an approach does where that is no option of a session."""
    if approach in (PR_PRUNE, PR):
        pipeline.scheduler.atomic = True
    if approach == PR:
        pipeline.allocation.search = basic
