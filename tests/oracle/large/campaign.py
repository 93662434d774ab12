"""Runs ranges of seeds of large cases, collects failures, and makes them small."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Self

from tests.oracle.campaign import general, limit, place
from tests.oracle.check import Tally
from tests.oracle.large import draw
from tests.oracle.large.check import Mismatch, check_case
from tests.oracle.large.course import LARGE, Case
from tests.oracle.large.report import script
from tests.oracle.large.shrink import smallest

PATIENCE = 120.0
"""Seconds of the processor after which a case counts as hanging; most take less than two."""


@dataclass
class Failure:
    case: Case
    kind: str
    """Without the particulars: similar failures have the same kind."""
    text: str

    @classmethod
    def of(cls, case: Case, error: Exception) -> Failure:
        if isinstance(error, Mismatch):
            return cls(case, general(error.what.split(":")[0]), str(error))
        kind = general(f"{type(error).__name__}: {str(error)[:80]}")
        text = f"large seed {case.seed}: {type(error).__name__}: {error}\n{place(error)}"
        return cls(case, kind, f"{text}\n\n{script(case, 0, None)}")


@dataclass
class Outcome:
    tally: Tally = field(default_factory=Tally)
    cases: int = 0
    large: int = 0
    """Cases of 50,000 rows or more."""
    rows: int = 0
    seconds: float = 0.0
    """Of the processor."""
    failures: list[Failure] = field(default_factory=list)
    constructs: Counter[str] = field(default_factory=Counter)
    """In how many of the cases of 50,000 rows or more each construct was used."""

    def __iadd__(self, other: Self) -> Self:
        self.tally += other.tally
        self.cases += other.cases
        self.large += other.large
        self.rows += other.rows
        self.seconds += other.seconds
        self.failures += other.failures
        self.constructs += other.constructs
        return self


def run(
    seeds: range,
    least: int = 50,
    most: int = 200_000,
    kept: int = 20,
    dense: bool = False,
    lean: float = 1.0,
) -> Outcome:
    """Checks every seed; stops after `kept` failures."""
    outcome = Outcome()
    start = time.process_time()
    for seed in seeds:
        case = draw.make(seed, least, most, dense, lean)
        outcome.cases += 1
        outcome.rows += case.rows
        if case.rows >= LARGE:
            outcome.large += 1
            outcome.constructs.update(set(+case.constructs()))
        try:
            with limit(PATIENCE):
                outcome.tally += check_case(case)
        except Exception as error:  # noqa: BLE001 — whatever the engine raises is a finding
            outcome.failures.append(Failure.of(case, error))
            if len(outcome.failures) >= kept:
                break
    outcome.seconds = time.process_time() - start
    return outcome


def minimised(failure: Failure, seconds: float = 60.0) -> Failure:
    """The same kind of failure on a smaller case."""
    last = failure

    def fails(case: Case) -> bool:
        nonlocal last
        try:
            with limit(PATIENCE):
                check_case(case)
        except Exception as error:  # noqa: BLE001 — whatever the engine raises is a finding
            found = Failure.of(case, error)
            if found.kind == failure.kind:
                last = found
                return True
        return False

    smallest(failure.case, fails, seconds)
    return last
