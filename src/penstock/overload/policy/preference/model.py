"""What a plan of dynamic monitoring levels is worth: how many promising rows expire by rank, and what looking them up costs.

Paper      Works 2013 (TP), §6.1.5 (Def. 9 and 10), §6.5.3 and §6.5.4.
Invariant  all searches judge by these functions and no others.
Expiring   of the rows that a level promises something of: those that do not come to the designated operator within their lifespan. A row waits
           behind everything until it is looked up, and from there on behind its rank and better ones; behind another designated
           operator on the way it has to be looked up again. If that takes k lifespans, one in k gets there.
Cost       units a step: a look-up for every row that comes to a classifier, one for all levels of an attribute there.
Static     which static levels are active, and where they are evaluated, was decided before (`flow.promotion`): levels of rank k are
           settled before rows that promise k (§6.5.2). So of Def. 10 the part that is still open is the expiration rate of promising rows,
           rank by rank, then the cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, product
from math import inf

from penstock.overload.policy.promotion.model import ALL, BACK_BURNER, Route

Places = tuple[int, ...]
"""Classifiers that look a level up: the first, then one behind every designated operator on the way."""


@dataclass(frozen=True, slots=True)
class Level:
    """A dynamic monitoring level: rows of a route with one of these values promise to meet rows of a rank at a designated operator."""

    route: int
    designated: int
    rank: int
    """1 is best."""
    attribute: int
    run: int
    """Consecutive joins of the route by the same attribute have the same number."""
    first: int
    """The first classifier where the value is known."""
    values: tuple[int, ...]
    significant: tuple[float, ...]
    """By value: rows of the rank that are there to be met (Def. 11)."""
    promising: tuple[float, ...]
    """By value: rows a step that may meet them, and are not themselves of the rank or better (Def. 12)."""
    everywhere: tuple[bool, ...]
    """By value: whether all streams of the run have rows with it."""

    def __post_init__(self) -> None:
        if not (self.rank >= 1 and 0 <= self.first <= self.designated):
            raise ValueError(f"no dynamic level: {self}")
        if {len(self.significant), len(self.promising), len(self.everywhere)} != {len(self.values)}:
            raise ValueError(f"something is not told of every value: {self}")

    @property
    def products(self) -> tuple[float, ...]:
        """By value: how many significant results it may come to."""
        return tuple(map(lambda a, b: a * b, self.significant, self.promising))

    def only(self, places: Iterable[int]) -> Level:
        """With some of its values."""
        kept = tuple(places)
        parts = (
            tuple(part[k] for k in kept)
            for part in (self.values, self.significant, self.promising, self.everywhere)
        )
        return Level(self.route, self.designated, self.rank, self.attribute, self.run, self.first, *parts)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Problem:
    """What the monitor knows when it asks for a plan; `routes` as in `flow.promotion`, what is static in place."""

    routes: tuple[Route, ...]
    levels: tuple[Level, ...]
    lifespan: float
    capacity: float
    """Units a step for look-ups."""
    look: float
    """Units a look-up takes."""
    units: float = inf
    doubt: float = 1.0
    known: dict[tuple[int, int], list[float]] = field(default_factory=dict, repr=False, compare=False)
    """What `ahead` has told; the same for problems that have other levels alone."""

    @cached_property
    def designated(self) -> Mapping[int, frozenset[int]]:
        """By route: its designated operators."""
        found: dict[int, set[int]] = {}
        for one in self.levels:
            found.setdefault(one.route, set()).add(one.designated)
        return {route: frozenset(places) for route, places in found.items()}

    def ahead(self, route: int, rank: int) -> list[float]:
        """At each stage of a route: rows that go before one of the rank; 0: all; -1: those that are still to be looked up."""
        found = self.known.get((route, rank))
        if found is None:
            part = ALL if rank == 0 else BACK_BURNER if rank == -1 else slice(rank)
            found = self.known[route, rank] = self.routes[route].ahead(part)
        return found

    def ways(self, level: Level) -> Iterator[Places]:
        """All places where a level could be looked up (§6.5.4): anywhere on its path, then once in every re-evaluation path."""
        others = sorted(d for d in self.designated[level.route] if d < level.designated)
        for first in range(level.first, level.designated + 1):
            ends = [*(d for d in others if d >= first), level.designated]
            segments = [range(a + 1, b + 1) for a, b in pairwise(ends)]
            for rest in product(*segments):
                yield (first, *rest)

    def latency(self, level: Level, places: Places) -> float:
        """Of a row that the level promotes: until it has passed the designated operator."""
        stages = self.routes[level.route].stages
        everything, rest, better = (self.ahead(level.route, k) for k in (0, -1, level.rank))
        if places[0] > level.first and self._before(level, places[0]) > self.units:
            return inf
        rate = stages[places[0]].rate
        own = rest[places[0]] * min(1.0, sum(level.promising) / rate) if rate else 0.0
        total, promoted = 0.0, False
        others = self.designated[level.route]
        for at, stage in enumerate(stages[: level.designated + 1]):
            if at in places:
                total += (rest[at] + 1) * self.look
                promoted = True
            total += ((better[at] + own if promoted else everything[at]) + 1) * stage.cost
            if at >= places[0]:
                own *= stage.selectivity
            promoted = promoted and at not in others
        return total

    def _before(self, level: Level, place: int) -> float:
        """Units a step that go before: until they are looked up all rows of the route go as the best rank (`overload.policy.promotion.model`)."""
        stages = self.routes[level.route].stages
        return stages[place].rate * self.look + sum(stage.rate * stage.cost for stage in stages[:place])

    def expiring(self, level: Level, places: Places | None) -> float:
        """Rows of a level a step that expire before the designated operator (Def. 9); None: it is not active."""
        if places is None:
            stages = self.routes[level.route].stages[: level.designated + 1]
            rows = self.ahead(level.route, 0)
            late = self.doubt * sum((n + 1) * stage.cost for n, stage in zip(rows, stages, strict=False))
        else:
            late = self.latency(level, places)
        return sum(level.promising) * (1 - min(1.0, self.lifespan / late)) if late else 0.0

    def cost(self, looked_up: Iterable[tuple[int, int, int]]) -> float:
        """Units a step for look-ups at (route, classifier, attribute)."""
        return self.look * sum(self.routes[route].stages[place].rate for route, place, _ in sorted(looked_up))


@dataclass(frozen=True, slots=True)
class Plan:
    """Active levels and where each is looked up, and what that is worth."""

    active: tuple[tuple[Level, Places], ...]
    expiring: tuple[float, ...]
    """By rank, of all levels of the problem that was asked."""
    cost: float


def looked_up(active: Iterable[tuple[Level, Places]]) -> set[tuple[int, int, int]]:
    return {(level.route, place, level.attribute) for level, places in active for place in places}


def judged(
    problem: Problem, active: Iterable[tuple[Level, Places]], everything: Problem | None = None
) -> Plan:
    """A plan with its worth. `everything`: the problem that was asked, if this one has other levels in place of its own."""
    chosen = tuple(active)
    whole = problem if everything is None else everything
    late: dict[tuple[int, int, int], list[tuple[int, float]]] = {}
    for level, places in chosen:
        share = _share(problem, level, places)
        for value in level.values:
            late.setdefault((level.route, level.rank, value), []).append((level.designated, share))
    expiring = [0.0] * max((one.rank for one in whole.levels), default=0)
    for one in whole.levels:
        at_rest = _share(whole, one, None)
        for value, rows in zip(one.values, one.promising, strict=True):
            ways = [s for d, s in late.get((one.route, one.rank, value), ()) if d >= one.designated]
            expiring[one.rank - 1] += rows * min(ways, default=at_rest)
    return Plan(chosen, tuple(expiring), problem.cost(looked_up(chosen)))


def _share(problem: Problem, level: Level, places: Places | None) -> float:
    rows = sum(level.promising)
    return problem.expiring(level, places) / rows if rows else 0.0


def merit(plan: Plan) -> tuple[tuple[float, ...], float, int]:
    """Definition 10 as a key, the least is best: rows that expire, rank by rank; then the cost; then the fewest levels."""
    return plan.expiring, plan.cost, len(plan.active)
