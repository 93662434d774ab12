"""What a placement of determinants is worth: latency by level, and what the classifiers cost.

Paper      Works, *Targeted Prioritized Processing in Overloaded Data Stream Systems*, 2013 (TP), §4.1.4 and §4.3.3 to §4.3.5.
Invariant  all searches, those to compare with too, judge by these functions and no others.
Latency    Eq. 4.1 and 4.2: back burner at the operators before the classifier, then the classifier, then promoted. The queue of an
           operator or classifier is read as the rows that reach it before ours: those that wait at its stage, and those that wait before
           it as far as the operators between let them through; what our classifier promotes of them is ahead of us from there on. Within a level
           the engine works downstream first, so a backlog stands at the source, and queues at later stages alone would hide what it will take
           there. (With selectivities of 0 this is Eq. 4.1 as printed.) A classifier takes, for each of these rows, what the determinants of our
           level and of better ones on the route cost.
Cost       units a second: of a determinant × rows a second that are left for it. A row that a more significant level has promoted
           at the same classifier or before is not (Properties 1 and 2); one of the same level is, as Property 1 has it.
Load       a classifier is too late on a route if the operators before it alone take all there is: latencies of queues do not tell.
Left out   that those others may be evaluated at an earlier classifier, which other rows pass: all are counted at the row's own. So latency
           depends on one determinant and its place. Counted where they are, their delay would be a second budget beside the cost, and the places
           of a level's determinants a subset sum.

Placements are *ordered* (Def. 5): along a route no determinant is evaluated before one of a more significant level. The paper
proves that others never win (Thm. 3), but ignores that rows may become more along a route; here it is a condition, because a
promoted row skips all later classifiers (§4.4.2). With it, what is left for a level depends on which levels are more
significant, and not on where they are evaluated. Levels are active from the best on, without gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from math import inf, prod

ALL = slice(None)
BACK_BURNER = slice(-1, None)


@dataclass(frozen=True, slots=True)
class Stage:
    """An operator of a route and the classifier before it."""

    cost: float
    """Units a row takes in the operator: T_t."""
    queues: tuple[float, ...]
    """Rows that wait, by level, and last those on the back burner."""
    rate: float
    """Rows a second that would reach its classifier on the back burner if nothing were promoted."""
    selectivity: float = 1.0
    """Rows that the operator gives for one."""

    def __post_init__(self) -> None:
        if not self.queues or min(self.cost, self.rate, self.selectivity, *self.queues) < 0:
            raise ValueError(f"a stage has a queue at least and nothing negative: {self}")


@dataclass(frozen=True, slots=True)
class Route:
    """The pipeline of one stream."""

    stages: tuple[Stage, ...]

    def __post_init__(self) -> None:
        if len({len(stage.queues) for stage in self.stages}) != 1:
            raise ValueError("the stages of a route have the same levels, and there is one stage at least")

    def ahead(self, levels: slice) -> list[float]:
        """By stage: rows from these queues that reach it before a row that comes now."""
        rows = [0.0]
        for stage in self.stages:
            rows[-1] += sum(stage.queues[levels])
            rows.append(rows[-1] * stage.selectivity)
        return rows[:-1]

    @property
    def at_rest(self) -> float:
        """Latency of a row that nothing promotes: behind all queues."""
        return sum((rows + 1) * stage.cost for rows, stage in zip(self.ahead(ALL), self.stages, strict=True))


@dataclass(frozen=True, slots=True)
class Determinant:
    """A disjunct of a level's criteria on one route; one that can be evaluated on two routes is two."""

    level: int
    """1 is the most significant."""
    route: int
    cost: float
    """Units to evaluate it for a row."""
    share: float
    """Of the rows, for how many it holds."""
    first: int
    last: int
    """The evaluation path: classifiers from … to; classifier i is before operator i."""

    def __post_init__(self) -> None:
        if not (self.level >= 1 and self.cost >= 0 and 0 <= self.share <= 1 and 0 <= self.first <= self.last):
            raise ValueError(f"no determinant: {self}")

    @property
    def path(self) -> range:
        return range(self.first, self.last + 1)


@dataclass(frozen=True)
class Problem:
    """What the monitor knows when it asks for a placement."""

    routes: tuple[Route, ...]
    determinants: tuple[Determinant, ...]
    lifespan: float
    """Units, as latencies are."""
    capacity: float
    """Units a second for classifiers: the budget minus what the operators take."""
    units: float = inf
    """Units a second that there are for everything."""
    doubt: float = 1.0
    """By how much rows that are not promoted may be later than they seem: more than 1 where promotion keeps queues short."""

    def __post_init__(self) -> None:
        if len({len(route.stages[0].queues) for route in self.routes}) != 1:
            raise ValueError("the routes of a problem have the same levels, and there is one route at least")
        for one in self.determinants:
            if not (one.route < len(self.routes) and one.last < len(self.routes[one.route].stages)):
                raise ValueError(f"the evaluation path is on no route: {one}")
            if one.level > self.levels:
                raise ValueError(f"no queues for the level of {one}")

    @property
    def levels(self) -> int:
        return len(self.routes[0].stages[0].queues) - 1

    @cached_property
    def members(self) -> tuple[tuple[int, ...], ...]:
        """By level (the first is level 1): its determinants, by number."""
        return tuple(
            tuple(i for i, one in enumerate(self.determinants) if one.level == level)
            for level in range(1, self.levels + 1)
        )

    @cached_property
    def better(self) -> tuple[tuple[int, ...], ...]:
        """By determinant: those of its route whose level is more significant."""
        return tuple(
            tuple(
                i
                for i, other in enumerate(self.determinants)
                if other.route == one.route and other.level < one.level
            )
            for one in self.determinants
        )

    @cached_property
    def latencies(self) -> tuple[Mapping[int, float], ...]:
        """By determinant and place: latency of the rows it promotes."""
        return tuple(
            {
                place: inf
                if place > one.first and self._before(one, place) > self.units
                else latency(self.routes[one.route], one, place, self._asked(one))
                for place in one.path
            }
            for one in self.determinants
        )

    def _before(self, one: Determinant, place: int) -> float:
        """Units a second that go before rows which a determinant promotes at a place. All rows of the route go as the best level
        until they have been sorted; if these alone take more than there is, what is promoted behind them never gets on, however
        short the queues are now."""
        stages = self.routes[one.route].stages
        sorted_ = stages[place].rate * self._asked(one)
        return sorted_ + sum(stage.rate * stage.cost for stage in stages[:place])

    def _asked(self, one: Determinant) -> float:
        """Units a row takes until this determinant and all that may come before it have been evaluated."""
        return sum(d.cost for d in self.determinants if d.route == one.route and d.level <= one.level)

    @cached_property
    def at_rest(self) -> tuple[float, ...]:
        """By level: latency if it is not active: its results may be driven by the rows of any route."""
        slowest = self.doubt * max(route.at_rest for route in self.routes)
        return tuple(slowest if numbers else 0.0 for numbers in self.members)

    def work(self, number: int, place: int, places: Mapping[int, int]) -> float:
        """Units a second for a determinant at a place, if those of more significant levels are evaluated at these."""
        one = self.determinants[number]
        left = prod(1 - self.determinants[i].share for i in self.better[number] if places[i] <= place)
        return one.cost * self.routes[one.route].stages[place].rate * left

    def ordered(self, places: Mapping[int, int]) -> bool:
        """Definition 5."""
        return all(places[i] <= place for number, place in places.items() for i in self.better[number])


@dataclass(frozen=True, slots=True)
class Promotion:
    """A placement and what it is worth."""

    active: tuple[int, ...]
    places: Mapping[int, int]
    """Where each determinant of the active levels is evaluated, by number."""
    latency: tuple[float, ...]
    """By level, of those that are not active too."""
    cost: float


def latency(route: Route, one: Determinant, place: int, asked: float) -> float:
    """Eq. 4.2 for the rows that a determinant promotes at a place, if the classifier takes so long for a row."""
    before, after = route.stages[:place], route.stages[place:]
    waiting = route.ahead(BACK_BURNER)[place]
    total = sum((rows + 1) * stage.cost for rows, stage in zip(route.ahead(ALL), before, strict=False))
    total += (waiting + 1) * asked
    promoted = waiting * one.share
    for rows, stage in zip(route.ahead(slice(one.level))[place:], after, strict=True):
        total += (rows + promoted + 1) * stage.cost
        promoted *= stage.selectivity
    return total


def promotion(problem: Problem, places: Mapping[int, int], active: int) -> Promotion:
    """The best `active` levels promoted at these places."""
    latencies = tuple(
        max((problem.latencies[i][places[i]] for i in numbers), default=0.0) if level < active else rest
        for level, (numbers, rest) in enumerate(zip(problem.members, problem.at_rest, strict=True))
    )
    cost = sum(problem.work(i, place, places) for i, place in sorted(places.items()))
    return Promotion(tuple(range(1, active + 1)), dict(places), latencies, cost)


def merit(latencies: Iterable[float], cost: float, lifespan: float) -> tuple[int, float]:
    """Definition 4 as a key, the least is best: levels from the best on that fit into the lifespan, then cost."""
    return -sum(1 for _ in takewhile(lambda t: t <= lifespan, latencies)), cost
