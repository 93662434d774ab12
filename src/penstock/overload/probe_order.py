"""Which way the rows of a core's streams take: from the plan of its join to the stops of every route.

Tables come first, then streams with a key, then those that only another predicate connects. Rows are built into their SteM before the
first stream is looked up; if there is none, before the first table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.operators.contract import Site
from penstock.operators.expressions.compiled import raises
from penstock.operators.join.predicates import Equality, KeyMaker, Residual, take_apart
from penstock.overload.criteria import can_ask_at_once, shares
from penstock.overload.queued_operator import Determinant, Stop
from penstock.overload.spj_plan import Core, own_tests, side_by_side
from penstock.plan.catalog import Function
from penstock.plan.expression_cost import units
from penstock.plan.expressions import Expression, columns
from penstock.plan.rank_levels import Disjunct


class Itinerary:
    """`keys`: by input, what its rows are found by."""

    def __init__(self, site: Site, core: Core, functions: Mapping[str, Function]) -> None:
        self.core = core
        self._functions = functions
        self._starts = side_by_side(core.inputs)
        self._equalities, self._residuals = take_apart(core.predicates, [i.schema for i in core.inputs])
        self.own = [own_tests(core, i) for i in range(len(core.inputs))]
        """What each input's rows must pass by themselves."""
        self.keys = [KeyMaker(site) for _ in core.inputs]
        self.routes = {i: self._route(i) for i, one in enumerate(core.inputs) if not one.table}
        """By the input whose rows go along them."""

    def determinants(self, disjuncts: Sequence[Disjunct]) -> tuple[Determinant, ...]:
        """Best level first. Those that are asked at once share what it costs; many of a level that read the same inputs are one."""
        criteria = [one.criteria for one in disjuncts]
        read = [frozenset(self.input_of(c.index) for c in columns(one)) for one in criteria]
        prices = [units(one, self._functions) for one in criteria]
        for inputs in set(read):
            own = [n for n, one in enumerate(criteria) if read[n] == inputs and not raises(one)]
            asked = [criteria[n] for n in own]
            if can_ask_at_once(asked):
                for n, price in zip(own, shares(asked, self._functions), strict=True):
                    prices[n] = min(prices[n], price)
        alike: dict[tuple[int, frozenset[int]], list[int]] = {}
        for n, one in enumerate(disjuncts):
            alike.setdefault((one.level, read[n]), []).append(n)
        made = []
        for (level, inputs), own in alike.items():
            whole = can_ask_at_once([criteria[n] for n in own])
            for part in [own] if whole else [[n] for n in own]:
                given = tuple(criteria[n] for n in part)
                made.append((level, part[0], Determinant(level, given, inputs, sum(prices[n] for n in part))))
        return tuple(found for _, _, found in sorted(made, key=lambda m: m[:2]))

    def input_of(self, column: int) -> int:
        return max(i for i, start in enumerate(self._starts) if start <= column)

    def _between(self, i: int, j: int) -> tuple[Equality, ...]:
        return tuple(e for e in self._equalities if {e.left, e.right} == {i, j})

    def _route(self, driver: int) -> list[Stop]:
        """Tables first, then streams with a key, then the others."""
        inputs = self.core.inputs
        bound = [driver]
        own = self.own[driver]
        made = []
        if own or len(inputs) == 1:
            last = len(inputs) == 1
            made.append(Stop(driver, 0, None, frozenset(bound), last, tests=own, tested=self._units(own)))
        while len(bound) < len(inputs):
            target, partner = min(
                ((t, self._partner(t, bound)) for t in range(len(inputs)) if t not in bound),
                key=lambda o: (self._distance(o[0], o[1], bound), not inputs[o[0]].table, o[0]),
            )
            equal = self._between(target, partner) if partner >= 0 else ()
            self.keys[target].index([e.side(target) for e in equal])
            if partner >= 0:
                self.keys[partner].index([e.side(partner) for e in equal])
            tests = self._tests({*bound, target}, target, equal)
            stop = Stop(driver, len(made), target, frozenset(bound), len(bound) + 1 == len(inputs))
            stop.builds = target == self._first_stream(driver, target, made)
            stop.before = not stop.builds and not any(s.builds for s in made)
            stop.partner, stop.equal = partner, equal
            stop.tests, stop.tested = tests, self._units(tests)
            made.append(stop)
            bound.append(target)
        return made

    def _first_stream(self, driver: int, target: int, before: Sequence[Stop]) -> int:
        """Where rows are to be built: before the first stream is looked up; if there is none, before the first table."""
        if any(s.builds for s in before):
            return -1
        streams = [i for i, one in enumerate(self.core.inputs) if not one.table and i != driver]
        return target if not streams or not self.core.inputs[target].table else -1

    def _distance(self, target: int, partner: int, bound: Sequence[int]) -> int:
        """How a target hangs together with what is bound: by a key, by another predicate, not at all."""
        if partner >= 0:
            return 0
        return 1 if any(_is_due(r, {*bound, target}, target) for r in self._residuals) else 2

    def _partner(self, target: int, bound: Sequence[int]) -> int:
        return next((p for p in bound if self._between(p, target)), -1)

    def _tests(self, bound: set[int], target: int, used: Sequence[Equality]) -> tuple[Expression, ...]:
        due = [r.whole for r in self._residuals if _is_due(r, bound, target)]
        for e in self._equalities:
            if (
                target in (e.left, e.right)
                and {e.left, e.right} <= bound
                and (e not in used or len(used) > 1)
            ):
                due.append(e.whole)
        return tuple(due)

    def _units(self, tests: Sequence[Expression]) -> float:
        return sum(units(t, self._functions) for t in tests)

    def path(self, route: Sequence[Stop], determinant: Determinant) -> range:
        """The classifiers of a route that could evaluate a determinant; a row of another stream brings its level along."""
        streams = {i for i in determinant.inputs if not self.core.inputs[i].table}
        driver = route[0].route
        if streams and driver not in streams:
            return range(0)
        ready = [s.at for s in route if determinant.inputs <= s.bound]
        return range(ready[0], len(route)) if ready else range(0)


def _is_due(residual: Residual, bound: set[int], target: int) -> bool:
    return target in residual.inputs and residual.inputs <= bound
