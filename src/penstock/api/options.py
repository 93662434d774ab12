"""Session options: plain names, checked when given. They change when work is done, never what is true."""

from __future__ import annotations

from dataclasses import dataclass, fields

from penstock.api.validation import interval
from penstock.errors import StateError
from penstock.plan.join_tree import Demand, Pairs, Shape, Tree, pairs_of
from penstock.plan.policies import Policies
from penstock.plan.state_upkeep import Expiry, Upkeep
from penstock.state.calendar import MOST

_CHOICES = {
    "clocks": ("session", "group"),
    "demand": ("jit", "doe", "off"),
    "expiry": ("upa", "direct", "negative", "hybrid"),
    "probing": ("index", "nested"),
}

KEPT = 100_000
"""Rows that `keep_dropped=True` keeps of a query."""


@dataclass(frozen=True, slots=True)
class Options:
    """`budget`: work units per step, or a time like "50 milliseconds" (None: no limit). `eager`, `lazy`, `partitions`: see `plan.state_upkeep`.
    `replan`: another plan may take a query's place when the data change. `share`, `routing`, `join`, `seed`, `significance`, `guaranteed`: see `plan.policies`. With join="tree":
    `tree`, its shape; `probing`, how states are searched (`plan.join_tree`). `sampling`: with a budget, ranked groups answer from
    partial populations and say so (`plan.sampled_aggregate`); `sampling_error`: how far their means may be off, as it is or, with
    `sampling_relative`, as a share of the mean; `sampling_memory`: how many rows of windows they may hold.
    `keep_dropped`: with a budget, so many rows (True: 100,000) of what is dropped are kept for `query.dropped()`.
    `keep_late`: so many rows of a stream, the newest, are kept for `late` and as many for `ahead`; all are counted.
    `unread_bytes`: unread changes of a query may take so many bytes (None: any); beyond they are discarded, and the next read says so.
    `query_bytes`: what a query remembers may take so many bytes (None: any); beyond, it stops with an error, and the others go on. On Spark it
    is what a query remembers in one cell.
    `clocks`: "session", all queries see one clock, that of the slowest stream; "group", queries that no stream connects do not wait for each
    other, and each `query.clock` is its own (always so on Spark)."""

    join: str = "auto"
    demand: str = "jit"
    expiry: str = "upa"
    allocation: str = "prefer"
    significance: str = "impartial"
    guaranteed: float = 0.05
    budget: int | str | None = None
    seed: int = 0
    eager: int | None = None
    lazy: float = 0.05
    partitions: int | None = None
    replan: bool = True
    share: bool = True
    routing: str = "thompson"
    tree: str | Pairs = "left-deep"
    probing: str = "index"
    sampling: bool = True
    sampling_error: float = 0.1
    sampling_relative: bool = False
    sampling_memory: int | None = None
    keep_dropped: bool | int = False
    keep_late: int = 1_000_000
    unread_bytes: int | None = 1 << 30
    query_bytes: int | None = None
    clocks: str = "session"

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if not isinstance(value, str) or value not in allowed:
                raise StateError(f"option {name}={value!r} is unknown", hint=f"one of {', '.join(allowed)}")
        _ = self.policies  # checks itself
        for name, least in (
            ("eager", 1),
            ("partitions", 1),
            ("keep_late", 0),
            ("unread_bytes", 1),
            ("query_bytes", 1),
        ):
            value = getattr(self, name)
            wrong = not isinstance(value, int) or isinstance(value, bool) or value < least
            if wrong and (value is not None or name == "keep_late"):
                raise StateError(f"option {name}={value!r} is not a whole number from {least}")
            if name == "partitions" and value is not None and value > MOST:
                raise StateError(f"option {name}={value!r} is more than {MOST}")
        if not isinstance(self.replan, bool):
            raise StateError(f"option replan={self.replan!r} is neither True nor False")
        shapes = [shape.value for shape in Shape]
        if not isinstance(self.tree, str):
            Tree(pairs=pairs_of(self.tree))
        elif self.tree not in shapes:
            raise StateError(
                f"option tree={self.tree!r} is unknown",
                hint=f"one of {', '.join(shapes)}, or pairs of inputs: ((0, 1), (2, 3))",
            )
        if type(self.lazy) not in (int, float) or not 0 <= self.lazy <= 1:
            raise StateError(f"option lazy={self.lazy!r} is not a share between 0 and 1")

    @property
    def upkeep(self) -> Upkeep:
        """What the engine is told of it."""
        demand = Demand(self.demand)
        return Upkeep(Expiry(self.expiry), self.eager, self.lazy, self.partitions, self._tree, demand)

    @property
    def _tree(self) -> Tree | None:
        if self.join != "tree":
            return None
        nested = self.probing == "nested"
        if isinstance(self.tree, str):
            return Tree(Shape(self.tree), nested)
        return Tree(Shape.LEFT_DEEP, nested, pairs_of(self.tree))

    @property
    def policies(self) -> Policies:
        budget = self.wall if isinstance(self.budget, str) else self.budget
        kept = self.keep_dropped if type(self.keep_dropped) is not bool else KEPT if self.keep_dropped else 0
        return Policies(
            self.share,
            self.routing,
            self.join,
            self.seed,
            budget,
            self.allocation,
            self.significance,
            self.guaranteed,
            self.sampling,
            self.sampling_error,
            self.sampling_relative,
            self.sampling_memory,
            kept,
        )

    @property
    def wall(self) -> int | None:
        """Microseconds that a step may take, if its budget is given as time."""
        return interval(self.budget, "a budget") if isinstance(self.budget, str) else None


def options(given: dict[str, object]) -> Options:
    """Options from keyword arguments."""
    known = [f.name for f in fields(Options)]
    for name in given:
        if name not in known:
            raise StateError(f"unknown option {name!r}", hint=f"options are {', '.join(known)}")
    return Options(**given)  # type: ignore[arg-type]
