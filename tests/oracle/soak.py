"""A long campaign: python -m tests.oracle.soak --comparisons 2000000 [--large-cases 5000] [--seed 0] [--jobs 2]

It ends when there were as many comparisons as wanted and, among the cases, `--large-cases` of 50,000 to 1,000,000 rows
(one for every 400 comparisons unless given). Half of the other comparisons are made in small cases, half in cases of some
hundred rows that are compared at every instant; every fourth block of both runs with internal sizes lowered, every eighth
in cells, and most with drawn options.

Prints progress, the time that is left and the seed of every failure, then each kind of failure once, made small and as a test or a program to paste;
the last lines sum up. The exit status is 0 only if nothing failed and all that was wanted was done.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

from penstock.types import sizes
from tests.oracle import campaign, features
from tests.oracle.large import campaign as large_campaign
from tests.oracle.large import draw

LEAST, MOST = 50_000, 1_000_000
"""Rows of a large case."""
LEAN = 3.0
"""Large cases have some 170,000 rows on average; one in twelve has more than half a million."""
COMPARISONS_PER_LARGE = 400
CHUNKS = {"small": 25, "dense": 10, "large": 5}
"""Cases of a kind that a process takes at a time."""
BLOCKS_PER_PROCESS = 150
"""After which a process is replaced: what one case leaves behind must not help or hurt thousands of others."""
Failure = campaign.Failure | large_campaign.Failure
Outcome = campaign.Outcome | large_campaign.Outcome
F = TypeVar("F", campaign.Failure, large_campaign.Failure)


@dataclass(frozen=True)
class Block:
    """Some seeds of one kind of cases, and the settings of the sessions that run them."""

    kind: str
    first: int
    enabled: frozenset[str] = features.ALL
    options: tuple[tuple[str, Any], ...] = ()
    cells: int = 0
    lowered: bool = False

    @property
    def seeds(self) -> range:
        return range(self.first, self.first + CHUNKS[self.kind])

    def sizes(self) -> AbstractContextManager[None]:
        return sizes.lowered() if self.lowered else nullcontext()

    def run(self) -> Outcome:
        warnings.simplefilter("ignore")
        with self.sizes():
            match self.kind:
                case "small":
                    return campaign.run(
                        self.seeds, self.enabled, options=dict(self.options), cells=self.cells
                    )
                case "dense" if self.lowered:
                    return large_campaign.run(self.seeds, 30, 600)
                case "dense":
                    return large_campaign.run(self.seeds, 300, 3000, dense=True)
        return large_campaign.run(self.seeds, LEAST, MOST, lean=LEAN)

    def minimised(self, failure: Failure) -> str:
        """A failure of this block made small, as text to paste."""
        with self.sizes():
            if isinstance(failure, large_campaign.Failure):
                return large_campaign.minimised(failure).text
            small = campaign.minimised(failure, options=dict(self.options), cells=self.cells)
            return f"{small.text}\n\n{campaign.as_example(small)}"

    def __str__(self) -> str:
        """What is not as in a session without options."""
        given = [f"{name}={value!r}" for name, value in self.options]
        given += [f"{self.cells} cells"] if self.cells else []
        given += ["internal sizes lowered (PENSTOCK_SIZES=lowered)"] if self.lowered else []
        return ", ".join(given)


def block(kind: str, first: int, enabled: frozenset[str], fixed: dict[str, Any]) -> Block:
    """The block that begins with this seed; options that are not `fixed` are drawn. Large cases draw their own."""
    number = first // CHUNKS[kind]
    if kind == "large":
        return Block(kind, first)
    if kind == "dense":
        return Block(kind, first, lowered=number % 4 == 3)
    rng = random.Random(f"block {first}")
    drawn = draw.some_options(rng)
    cells = rng.choice((2, 3, 6)) if number % 8 == 5 else 0
    return Block(kind, first, enabled, tuple({**drawn, **fixed}.items()), cells, number % 4 == 3)


@dataclass
class Soak:
    """What is wanted, what was done, and what comes next."""

    comparisons: int
    large: int
    failures: int
    done: dict[str, Any] = field(default_factory=dict)
    """Outcomes by kind."""
    failed: list[tuple[Block, Failure]] = field(default_factory=list)
    submitted: int = 0
    """Large cases that were submitted."""

    def __post_init__(self) -> None:
        self.done = {"small": campaign.Outcome()} | {k: large_campaign.Outcome() for k in ("dense", "large")}

    @property
    def compared(self) -> int:
        return sum(outcome.tally.comparisons for outcome in self.done.values())

    @property
    def cases(self) -> int:
        return sum(outcome.cases for outcome in self.done.values())

    @property
    def is_complete(self) -> bool:
        return self.compared >= self.comparisons and self.done["large"].large >= self.large

    def next_kind(self) -> str | None:
        """Large cases in step with the comparisons, so that any prefix of the soak is mixed."""
        if len(self.failed) >= self.failures:
            return None
        share = min(self.compared / max(self.comparisons, 1), 1.0)
        if self.submitted < self.large and self.submitted <= self.large * share:
            return "large"
        if self.compared < self.comparisons:
            small, dense = (self.done[kind].tally.comparisons for kind in ("small", "dense"))
            return "small" if small <= dense else "dense"
        return "large" if self.submitted < self.large else None

    def take(self, one: Block, outcome: Outcome) -> None:
        self.done[one.kind] += outcome
        self.failed += [(one, failure) for failure in outcome.failures]

    def remaining(self, seconds: float) -> float | None:
        """Estimated seconds until the end; None as long as too little is known."""
        large = self.done["large"]
        others = [self.done[kind] for kind in ("small", "dense")]
        spent = [large.seconds, sum(o.seconds for o in others)]
        made = [large.tally.comparisons, sum(o.tally.comparisons for o in others)]
        if (self.large and not large.cases) or not made[1]:
            return None
        cases_left = max(self.large - large.large, 0)
        by_large = cases_left * made[0] / max(large.cases, 1)
        left = max(self.comparisons - self.compared - by_large, 0)
        work = cases_left * spent[0] / max(large.cases, 1) + left * spent[1] / made[1]
        return seconds * work / max(sum(spent), 1e-9)

    def progress(self, seconds: float) -> str:
        left = self.remaining(seconds)
        return (
            f"{self.compared:>10,} of {self.comparisons:,} comparisons, {self.done['large'].large:,} of {self.large:,} large cases,"
            f" {self.cases:,} cases, {len(self.failed)} failures, {clock(seconds)}"
            f"{'' if left is None else f', some {clock(left)} left'}"
        )

    def report(self, seconds: float) -> str:
        """The summary of a soak."""
        large = self.done["large"]
        snapshots = sum(outcome.tally.snapshots for outcome in self.done.values())
        replays = sum(outcome.tally.replays for outcome in self.done.values())
        used = ", ".join(f"{name} {number}" for name, number in sorted(large.constructs.items()))
        return (
            f"constructs of the large cases: {used or 'none'}\n"
            f"{large.large:,} cases of {LEAST:,} rows or more: {large.rows:,} rows, {large.tally.comparisons:,} comparisons,"
            f" {large.seconds / max(large.cases, 1):.2f} s of processor time a case\n"
            f"{self.compared:,} comparisons ({snapshots:,} snapshots, {replays:,} replays) in {self.cases:,} cases,"
            f" {len(self.failed)} failures, {clock(seconds)}{'' if self.is_complete else '; not all that was wanted'}"
        )


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d} min"


def first_of_each_kind(failed: list[tuple[Block, Failure]]) -> Iterator[tuple[int, Block, Failure]]:
    """(how many there are, the block, the first) of each kind of failure."""
    for kind, number in Counter(failure.kind for _, failure in failed).most_common():
        yield number, *next((one, failure) for one, failure in failed if failure.kind == kind)


def describe(soak: Soak) -> Iterator[str]:
    """Each kind of failure once, made small."""
    for number, one, failure in first_of_each_kind(soak.failed):
        settings = f"; {one}" if str(one) else ""
        yield f"\n=== {number} × {failure.kind} (seed {failure.case.seed}, {one.kind}{settings})\n{one.minimised(failure)}"


def run(soak: Soak, seed: int, jobs: int, enabled: frozenset[str], fixed: dict[str, Any]) -> list[Block]:
    """Run blocks until all is done; blocks that were lost because a process died."""
    began, shown = time.perf_counter(), 0.0
    firsts = {kind: count(seed, size) for kind, size in CHUNKS.items()}
    running: dict[Future[Outcome], Block] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, max_tasks_per_child=BLOCKS_PER_PROCESS) as pool:
        while True:
            while len(running) < jobs * 2 and (kind := soak.next_kind()):
                one = block(kind, next(firsts[kind]), enabled, fixed)
                soak.submitted += CHUNKS[kind] if kind == "large" else 0
                running[pool.submit(one.run)] = one
            if not running:
                return []
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            try:
                for future in done:
                    outcome = future.result()
                    one = running.pop(future)
                    soak.take(one, outcome)
                    for failure in outcome.failures:
                        print(f"=== {failure.kind} (seed {failure.case.seed}, {one.kind}) {one}", flush=True)
            except BrokenProcessPool:
                return list(running.values())
            now = time.perf_counter()
            if now - shown > 10:
                shown = now
                print(soak.progress(now - began), flush=True)


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--comparisons", type=int, default=100_000)
    parser.add_argument("--large-cases", type=int, help="cases of 50,000 rows or more")
    parser.add_argument("--seed", type=int, default=1_000_000, help="first seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--without", default="", help="constructs that small cases do not use")
    parser.add_argument("--expiry", help="of small cases: upa, hybrid, negative or direct (default: any)")
    parser.add_argument("--eager", type=int, help="of small cases: time units after which state is looked at")
    parser.add_argument("--failures", type=int, default=20, help="stop after so many")
    arguments = parser.parse_args(given)
    enabled = features.ALL - features.expand(arguments.without)
    fixed = {k: v for k in ("expiry", "eager") if (v := getattr(arguments, k)) is not None}
    large = arguments.large_cases
    large = arguments.comparisons // COMPARISONS_PER_LARGE if large is None else large
    soak = Soak(arguments.comparisons, large, arguments.failures)
    began = time.perf_counter()
    lost = run(soak, arguments.seed, arguments.jobs, enabled, fixed)
    for one in lost:
        print(
            f"\n=== a process died, perhaps in {one.kind} seeds {one.seeds.start} to {one.seeds.stop - 1} {one}"
        )
    for text in describe(soak):
        print(text)
    print(soak.report(time.perf_counter() - began))
    return 1 if soak.failed or lost or not soak.is_complete else 0


if __name__ == "__main__":
    sys.exit(main())
