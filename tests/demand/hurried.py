"""Joins that make up their mind every few rows, and by lot: which questions are put, which horizons are kept, and whether trees keep
partial results."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.kernels.tree import climb as kernel
from penstock.operators.join import cyclic, semijoin_checks
from penstock.operators.join.semijoin_checks import Directed, Questions
from penstock.operators.join.tree_join import TreeJoin


def change(join: TreeJoin) -> None:
    """After its next row a tree keeps partial results, or no longer does."""
    state = join._state
    state.regs[int(state.spec[kernel.COUNT]) + kernel.CROWDED] |= kernel.KEEPING_ANEW


@contextmanager
def hurried(seed: int, share: float = 0.7) -> Iterator[None]:
    """Whatever is chosen, answers are the same; so here it need not be what pays."""
    rng = random.Random(seed)
    decide, tables, step = Questions._decide, Questions._tables, TreeJoin.step
    lengths = semijoin_checks.TRIAL, semijoin_checks.FIRST, semijoin_checks.MOST
    worth = cyclic.LONELY, cyclic.UPKEEP, cyclic.GROWN, cyclic.FITS

    def drawn_tables(self: Questions, *_: Any) -> list[Directed]:
        every = [(j, i) for j in range(self._n) for i in self._near[j] if rng.random() < share]
        return sorted(every, key=lambda one: (self._behind(*one), one))

    def drawn(self: Questions, *given: Any) -> None:
        self._banned = 0
        decide(self, *given)
        self._chosen = [question for question in self._every() if rng.random() < share]
        self._empty = rng.random() < share

    def drawn_step(self: TreeJoin, *given: Any) -> Any:
        if self._state.spec[kernel.DEMAND] == kernel.JIT and not self._state._nested and rng.random() < 0.2:
            change(self)
        return step(self, *given)

    Questions._decide, Questions._tables = drawn, drawn_tables  # type: ignore[method-assign]
    TreeJoin.step = drawn_step  # type: ignore[method-assign]
    semijoin_checks.TRIAL, semijoin_checks.FIRST, semijoin_checks.MOST = 3, 1, 3
    # Every hop has its filter, or those that pay; they are laid out anew all the time, or seldom. Questions are all tried.
    cyclic.LONELY, cyclic.UPKEEP = -1.0, rng.choice((-1.0, 8.0))
    cyclic.GROWN, cyclic.FITS = rng.choice(((0, 0.0), (2, 1.25)))
    try:
        yield
    finally:
        Questions._decide, Questions._tables = decide, tables  # type: ignore[method-assign]
        TreeJoin.step = step  # type: ignore[method-assign]
        semijoin_checks.TRIAL, semijoin_checks.FIRST, semijoin_checks.MOST = lengths
        cyclic.LONELY, cyclic.UPKEEP, cyclic.GROWN, cyclic.FITS = worth
