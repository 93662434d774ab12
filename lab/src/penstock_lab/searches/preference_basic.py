"""Which dynamic monitoring levels are active, without pruning: PR.

Paper      Works 2013, §6.5.2.
Order      rank by rank; values of a rank as they come.
Cost       ways × values.
"""

from __future__ import annotations

from penstock.overload.policy.preference.model import Plan, Problem, judged
from penstock.overload.policy.preference.search import settle


def basic(problem: Problem) -> Plan:
    """Every value by itself, every designated operator."""
    singles = [one.only([k]) for one in problem.levels for k in range(len(one.values))]
    return judged(problem, settle(problem, sorted(singles, key=lambda one: one.rank)))
