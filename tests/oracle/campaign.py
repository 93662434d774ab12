"""Runs ranges of seeds, collects failures, and makes them small."""

from __future__ import annotations

import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from tests.oracle import case as cases
from tests.oracle import features
from tests.oracle.case import Case
from tests.oracle.check import Mismatch, Tally, check_case
from tests.oracle.report import describe, example
from tests.oracle.shrink import smallest
from tests.oracle.trace import Cut

PATIENCE = 20.0
"""Seconds of the processor after which a case counts as hanging; most take a few hundredths."""


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Raises TimeoutError in the body when it takes more of the processor, or stands still; main thread only."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"no end after {seconds:.0f} s")

    timers = {
        signal.SIGPROF: (signal.ITIMER_PROF, seconds),
        signal.SIGALRM: (signal.ITIMER_REAL, 15 * seconds),
    }
    before = {number: signal.signal(number, stop) for number in timers}
    for timer, patience in timers.values():
        signal.setitimer(timer, patience)
    try:
        yield
    finally:
        for timer, _ in timers.values():
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass
class Failure:
    """What went wrong, in words only, so that it can travel between processes."""

    case: Case
    kind: str
    """Without the particulars: similar failures have the same kind."""
    text: str
    query: int = 0

    @property
    def seed(self) -> int:
        return self.case.seed

    @classmethod
    def of(cls, case: Case, error: Exception) -> Failure:
        if isinstance(error, Mismatch):
            return cls(case, general(error.what.split(":")[0]), describe(error), error.query)
        told = describe(Mismatch(f"{type(error).__name__}: {error}", case))
        return cls(case, general(f"{type(error).__name__}: {str(error)[:80]}"), f"{told}\n{place(error)}")


@dataclass
class Outcome:
    tally: Tally = field(default_factory=Tally)
    cases: int = 0
    seconds: float = 0.0
    """Of the processor."""
    failures: list[Failure] = field(default_factory=list)
    constructs: Counter[str] = field(default_factory=Counter)

    def __iadd__(self, other: Self) -> Self:
        self.tally += other.tally
        self.cases += other.cases
        self.seconds += other.seconds
        self.failures += other.failures
        self.constructs += other.constructs
        return self


def general(text: str) -> str:
    return re.sub(r"-?\d+", "N", text)


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
    options: dict[str, Any] | None = None,
    cells: int = 0,
) -> Outcome:
    """Checks every seed, in a session with these options and cells; stops after `kept` failures or when `stop_at` comparisons are reached."""
    outcome = Outcome()
    start = time.process_time()
    for seed in seeds:
        case = cases.make(seed, enabled, wanted)
        outcome.cases += 1
        outcome.constructs.update(set(+case.constructs()))
        try:
            with limit(PATIENCE):
                outcome.tally += check_case(case, how, options, cells)
        except Exception as error:  # noqa: BLE001 — whatever the engine raises is a finding
            outcome.failures.append(Failure.of(case, error))
            if len(outcome.failures) >= kept:
                break
        if outcome.tally.comparisons >= stop_at:
            break
    outcome.seconds = time.process_time() - start
    return outcome


def minimised(
    failure: Failure,
    seconds: float = 20.0,
    how: Cut | None = None,
    options: dict[str, Any] | None = None,
    cells: int = 0,
) -> Failure:
    """The same kind of failure on a smaller case, with the same options and cells."""
    last = failure

    def fails(case: Case) -> bool:
        nonlocal last
        try:
            with limit(PATIENCE):
                check_case(case, how, options, cells)
        except Exception as error:  # noqa: BLE001 — whatever the engine raises is a finding
            found = Failure.of(case, error)
            if found.kind == failure.kind:
                last = found
                return True
        return False

    smallest(failure.case, fails, seconds)
    return last


def as_example(failure: Failure) -> str:
    return example(failure.case, failure.query, f"seed_{failure.seed}")
