"""One scale for the levels of all queries of a session (Works 2013, §9.1).

A query has ranks, and a weight beside other queries. Three settings say what a rank of one is worth beside a rank of another:

strict      all levels of a query go before any of a query that weighs less
impartial   a level stands at rank / weight: levels of queries interleave; what has no rank comes after all that have one
shared      rank n stands at n, whoever says so, and weights divide what there is for those that stand at the same place

A *place* is compared: the least goes first. Who stands at the same place gets on in turn, by what each has had.
"""

from __future__ import annotations

from penstock.state.priority_queue import BACK_BURNER

Place = tuple[float, float]


def place(setting: str, weight: float, level: int) -> Place:
    """Where a level of a query stands.

    >>> place("impartial", 1.0, 1) == place("impartial", 2.0, 2)
    True
    >>> place("strict", 2.0, BACK_BURNER) < place("strict", 1.0, 1)
    True
    >>> place("shared", 2.0, 1) == place("shared", 1.0, 1) < place("shared", 9.0, 2)
    True
    """
    if setting == "strict":
        return -weight, level
    back = float(level >= BACK_BURNER)
    return back, level if setting == "shared" else level / weight


def share(setting: str, weight: float) -> float:
    """What a query has, in proportion, of what there is for those at the same place."""
    return weight if setting == "shared" else 1.0
