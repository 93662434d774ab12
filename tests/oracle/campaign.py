"""Runs ranges of seeds, collects failures, and makes them small."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Self

from . import case as cases
from . import features
from .case import Case
from .check import Mismatch, Tally, check_case
from .report import describe, example
from .shrink import smallest
from .trace import Cut


@dataclass
class Failure:
    seed: int
    case: Case
    error: Exception

    @property
    def kind(self) -> str:
        """What failed, without the particulars: similar failures have the same kind."""
        if isinstance(self.error, Mismatch):
            return self.error.what.split(":")[0]
        return f"{type(self.error).__name__}: {str(self.error)[:80]}"

    def text(self) -> str:
        if isinstance(self.error, Mismatch):
            return describe(self.error)
        told = describe(Mismatch(f"{type(self.error).__name__}: {self.error}", self.case))
        return f"{told}\n{place(self.error)}"


@dataclass
class Outcome:
    tally: Tally = field(default_factory=Tally)
    cases: int = 0
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)
    constructs: Counter[str] = field(default_factory=Counter)

    def __iadd__(self, other: Self) -> Self:
        self.tally += other.tally
        self.cases += other.cases
        self.seconds += other.seconds
        self.failures += other.failures
        self.constructs += other.constructs
        return self


def place(error: BaseException) -> str:
    """The last lines of the traceback inside the engine."""
    import traceback

    frames = [f for f in traceback.extract_tb(error.__traceback__) if "penstock" in f.filename][-4:]
    return "\n".join(f"  {f.filename}:{f.lineno} in {f.name}: {f.line}" for f in frames)


def run(
    seeds: range,
    enabled: frozenset[str] = features.ALL,
    wanted: frozenset[str] = frozenset(),
    stop_at: int = 1_000_000,
    kept: int = 20,
    how: Cut | None = None,
) -> Outcome:
    """Checks every seed; stops after `kept` failures or when `stop_at` comparisons are reached."""
    outcome = Outcome()
    start = time.perf_counter()
    for seed in seeds:
        case = cases.make(seed, enabled, wanted)
        outcome.cases += 1
        outcome.constructs.update(set(+case.constructs()))
        try:
            outcome.tally += check_case(case, how)
        except Exception as error:  # noqa: BLE001 — whatever the engine raises is a finding
            outcome.failures.append(Failure(seed, case, error))
            if len(outcome.failures) >= kept:
                break
        if outcome.tally.comparisons >= stop_at:
            break
    outcome.seconds = time.perf_counter() - start
    return outcome


def minimised(failure: Failure, seconds: float = 20.0, how: Cut | None = None) -> Failure:
    """The same kind of failure on a smaller case."""
    last = failure

    def fails(case: Case) -> bool:
        nonlocal last
        try:
            check_case(case, how)
        except Exception as error:  # noqa: BLE001 — whatever the engine raises is a finding
            found = Failure(failure.seed, case, error)
            if found.kind == failure.kind:
                last = found
                return True
        return False

    smallest(failure.case, fails, seconds)
    return last


def as_example(failure: Failure) -> str:
    index = failure.error.query if isinstance(failure.error, Mismatch) else 0
    return example(failure.case, index, f"seed_{failure.seed}")
