"""What an engine that is one of several cells has learnt, for the others, and what these have: whoever owns the cells passes it on.

Between two steps, and never within one. What is passed on is made of lists, numbers and texts, so that it can stand in a log and be told again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from penstock.engine.engine import Engine
from penstock.overload.policy.preference import exchange
from penstock.overload.policy.preference.partition_grid import Dealt
from penstock.overload.priority_executor import Ranked

Learnt = dict[str, Any]
"""By the names of queries that run together: their promising values, by core, attribute and level."""


def learnt(engine: Engine, dealt: Dealt) -> Learnt:
    """What one cell has to tell."""
    told = {name: one.allocation.learnt(dealt, engine.strings) for name, one in _ranked(engine)}
    return {name: one for name, one in told.items() if one is not None}


def learn(engine: Engine, told: Learnt, dealt: Dealt) -> None:
    """What all cells have told; who is not mentioned knows nothing of others."""
    for name, one in _ranked(engine):
        one.allocation.learn(told.get(name), dealt, engine.strings)


def together(cells: Iterable[Mapping[str, Any]]) -> Learnt:
    """What cells have told, always in the same order, as one; a query that is not the same in all of them is left out."""
    found: dict[str, list[dict[str, Any]]] = {}
    for cell in cells:
        for name, told in cell.items():
            found.setdefault(name, []).append(told)
    made = {}
    for name, told in found.items():
        if len({one["of"] for one in told}) == 1:
            cores = zip(*(one["cores"] for one in told), strict=True)
            made[name] = {"of": told[0]["of"], "cores": [exchange.together(core) for core in cores]}
    return made


def _ranked(engine: Engine) -> Iterator[tuple[str, Ranked]]:
    for tail in engine.tails.values():
        if isinstance(tail.pipeline, Ranked):
            yield "\n".join(standing.name for standing in tail.standings), tail.pipeline
