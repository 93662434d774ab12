"""Criteria of many levels and many queries, asked of rows all at once.

Paper      Works 2013, §4.2.1 (assessment sets), §9.1 (criteria of several queries on one path); Madden et al. 2002, §2.2 (grouped
           filters).
Invariant  of a row the first criteria are found that asking one after the other finds, in the order in which they are given.
State      an eddy with a bit for each of the criteria (`sharing.eddy`); nothing of rows.
Cost       a look-up for each subject of a row and words / 4 instructions, however many criteria compare it with whatever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.kernels.filters import lineage as kernels
from penstock.operators.expressions.compiled import raises
from penstock.operators.expressions.evaluator import Evaluator
from penstock.overload.queued_operator import Determinant
from penstock.plan.catalog import Function
from penstock.plan.expression_cost import CALL, units
from penstock.plan.expressions import Expression, columns
from penstock.plan.fingerprint import predicate_text
from penstock.plan.normal_form import clauses
from penstock.sharing.eddy import Eddy
from penstock.state.priority_queue import BACK_BURNER
from penstock.types.batch import Batch, Column, Ints

MANY = 6
"""Criteria from which on they are asked at once (`penstock bench criteria`)."""


def can_ask_at_once(criteria: Sequence[Expression]) -> bool:
    """Whether it pays; Python functions are called for the rows that need them, one by one."""
    return len(criteria) >= MANY and not any(map(raises, criteria))


def shares(criteria: Sequence[Expression], functions: Mapping[str, Function]) -> list[float]:
    """What each of them costs a row, in units, if they are asked at once: who asks the same subject shares a look-up."""
    asked = [
        {predicate_text(atom.subject): atom.subject for clause in clauses(one) for atom in clause}
        for one in criteria
    ]
    askers: dict[str, int] = {}
    for subjects in asked:
        for text in subjects:
            askers[text] = askers.get(text, 0) + 1
    return [
        sum((CALL + units(subject, functions)) / askers[text] for text, subject in subjects.items())
        for subjects in asked
    ]


class Assessment:
    """`criteria`: each with whose it is and its level, in order of levels for each owner."""

    def __init__(
        self, criteria: Sequence[tuple[int, int, Expression]], owners: int, evaluator: Evaluator
    ) -> None:
        self.read = frozenset(c.index for _, _, one in criteria for c in columns(one))
        self.cost = sum(shares([one for _, _, one in criteria], evaluator.functions))
        """Units a row."""
        self._owners = owners
        self._eddy = Eddy(evaluator.strings, evaluator.functions)
        bits = [self._eddy.enrol(one).bit for _, _, one in criteria]
        self._whose, self._levels = np.zeros((2, 64 * self._eddy.words), np.int64)
        self._whose[bits] = [owner for owner, _, _ in criteria]
        self._levels[bits] = [level for _, level, _ in criteria]

    def best(self, given: Sequence[Column], ts: Ints, none: int) -> Ints:
        """By owner and row: the best level of which criteria hold; `none` if there is none."""
        found = np.full((self._owners, len(ts)), none, np.int64)
        if len(ts):
            made, _ = self._eddy.sort(Batch(ts, ts, tuple(given)), keep=True)
            kernels.first_bits(made.lineage, made.rows, self._whose, self._levels, found)
        return found

    def close(self) -> None:
        """Nobody asks any more."""
        self._eddy.close()


@dataclass(frozen=True, slots=True)
class AtOnce:
    """Determinants of a stop, best level first, that are asked at once."""

    determinants: tuple[Determinant, ...]
    levels: Ints
    """Of each; and of none."""
    asked: Assessment

    @property
    def best(self) -> int:
        return self.determinants[0].level


def at_once(
    determinants: Sequence[Determinant], evaluator: Evaluator
) -> tuple[AtOnce | None, Sequence[Determinant]]:
    """Those that are asked at once, if so many can be; and the others."""
    cheap = tuple(one for one in determinants if not any(map(raises, one.alternatives)))
    criteria = [(0, n, given) for n, one in enumerate(cheap) for given in one.alternatives]
    if not can_ask_at_once([given for _, _, given in criteria]):
        return None, determinants
    levels = np.array([*(one.level for one in cheap), BACK_BURNER], np.int64)
    rest = [one for one in determinants if one not in cheap]
    return AtOnce(cheap, levels, Assessment(criteria, 1, evaluator)), rest
