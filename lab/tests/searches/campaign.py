"""How the searches compare on random problems: `python -m lab.tests.searches.campaign FIRST COUNT`."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from math import inf, nextafter

from tests.overload.drawn import make
from tests.overload.problems import worth

from penstock.overload.policy.promotion.exact import exact
from penstock.overload.policy.promotion.model import BACK_BURNER, Problem, Promotion, latency
from penstock_lab.searches.promotion_exhaustive import exhaustive
from penstock_lab.searches.rank_order_pruning import rop


def delayed(problem: Problem, found: Promotion) -> bool:
    """Whether an active level comes too late if every determinant before is counted at the classifier where it is evaluated."""
    for number, place in found.places.items():
        one = problem.determinants[number]
        route = problem.routes[one.route]
        rows, asked = route.ahead(BACK_BURNER), 0.0
        for i, at in found.places.items():
            other = problem.determinants[i]
            if other.route == one.route and other.level <= one.level and at <= place:
                asked += (rows[at] + 1) * other.cost
        if latency(route, one, place, asked=0) + asked > problem.lifespan:
            return True
    return False


def tried(first: int, count: int) -> Counter[str]:
    """How many problems are of which kind."""
    seen: Counter[str] = Counter()
    for seed in range(first, first + count):
        problem = make(seed)
        best, all_tried = exact(problem), exhaustive(problem)
        if (best.active, worth(problem, best)) != (all_tried.active, worth(problem, all_tried)):
            seen["exact is not exhaustive"] += 1
            sys.stdout.write(f"seed {seed}: {problem}\n{best}\n{all_tried}\n")
        seen["problems"] += 1
        if worth(problem, exhaustive(problem, ordered=False)) < worth(problem, best):
            seen["better if not ordered"] += 1
        greedy, optimum = worth(problem, rop(problem)), worth(problem, best)
        if not best.active:
            seen["nothing to promote"] += 1
            seen["nothing to promote, rop does"] += greedy != optimum
            continue
        seen["something to promote"] += 1
        seen["rop: fewer levels fit"] += greedy[0] > optimum[0]
        seen["rop: as many fit, dearer"] += greedy[0] == optimum[0] and greedy[1] > optimum[1]
        seen["exact: a level too late, with delays counted where they are"] += delayed(problem, best)
        above = replace(problem, capacity=nextafter(problem.capacity, inf))
        seen["rop: either, because of line 17 alone"] += greedy != optimum == worth(problem, rop(above))
    return seen


def main() -> int:
    seen = tried(int(sys.argv[1]), int(sys.argv[2]))
    sys.stdout.writelines(f"{number:8} {what}\n" for what, number in seen.items())
    return int(seen["exact is not exhaustive"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
