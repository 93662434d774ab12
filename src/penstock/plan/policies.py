"""What a session's queries do together, and in which order rows are looked at.

Policies change when work is done, never what is true. They are one value that goes wherever an engine is made: into this
process, into cells, through a checkpoint and back.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from penstock.errors import StateError

ROUTINGS = ("thompson", "tickets", "fixed", "random", "worst")
JOINS = ("auto", "eddy", "tree", "mjoin")
SIGNIFICANCES = ("impartial", "strict", "shared")
ALLOCATIONS = ("prefer", "promote", "semantic", "random", "fifo")


@dataclass(frozen=True, slots=True)
class Policies:
    """Of an engine, as long as it lives."""

    share: bool = True
    """Queries share what they have in common. What state there is hangs on it."""
    routing: str = "thompson"
    """In which order rows visit the operators of an eddy (`sharing.routing_policy`)."""
    join: str = "auto"
    """Where joins of streams are made: "auto", "eddy": with others; else by themselves."""
    seed: int = 0
    """Of the routing, and of what is shed at random."""
    budget: int | None = None
    """Work units of a step; None: as many as it takes."""
    allocation: str = "prefer"
    """Who gets them if they do not reach for all (`overload.policy.allocation`)."""
    significance: str = "impartial"
    """What a rank of one query is worth beside a rank of another (`overload.policy.rank_scale`)."""
    guaranteed: float = 0.05
    """Of a step's units, what every query with work gets whatever the order; if there are many, the same for all."""
    sampling: bool = True
    """With a budget, ranked groups answer from partial populations and say so (`plan.sampled_aggregate`)."""
    sampling_error: float = 0.1
    """How far their means may be off."""
    sampling_relative: bool = False
    """As a share of the mean."""
    sampling_memory: int | None = None
    """Rows of windows that such groups may hold; None: all there are (`overload.ordered_downstream`)."""
    keep_dropped: int = 0
    """Rows that are kept of what is dropped, by query, until somebody asks (`overload.dropped_rows`); 0: they are counted, and of rows only what the query reads is
    kept."""

    def __post_init__(self) -> None:
        for name in ("share", "sampling", "sampling_relative"):
            if not isinstance(getattr(self, name), bool):
                raise StateError(f"option {name}={getattr(self, name)!r} is neither True nor False")
        for name, allowed in (
            ("routing", ROUTINGS),
            ("join", JOINS),
            ("allocation", ALLOCATIONS),
            ("significance", SIGNIFICANCES),
        ):
            value = getattr(self, name)
            if not isinstance(value, str) or value not in allowed:
                raise StateError(f"option {name}={value!r} is unknown", hint=f"one of {', '.join(allowed)}")
        for name in ("seed", "budget", "keep_dropped"):
            value = getattr(self, name)
            if (name != "budget" or value is not None) and (type(value) is not int or value < 0):
                raise StateError(f"option {name}={value!r} is not a whole number from 0")
        if type(self.guaranteed) not in (int, float) or not 0 <= self.guaranteed <= 1:
            raise StateError(f"option guaranteed={self.guaranteed!r} is not a share between 0 and 1")
        error = self.sampling_error
        if type(error) not in (int, float) or not 0 < error < float("inf"):
            raise StateError(f"option sampling_error={error!r} is not a number above 0")
        memory = self.sampling_memory
        if memory is not None and (type(memory) is not int or memory < 1):
            raise StateError(f"option sampling_memory={memory!r} is not a whole number from 1")

    def json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, told: object) -> Policies:
        """What `json` gave, and nothing else."""
        known = [f.name for f in fields(cls)]
        if not isinstance(told, dict) or sorted(told) != sorted(known):
            raise StateError(f"policies are {', '.join(known)}, and there are {told!r}")
        return cls(**told)
