"""A long campaign: python -m tests.oracle.soak --comparisons 1000000 [--large 2500] [--seed 0] [--jobs 2]

Small cases until there are enough comparisons, and beside them `--large` cases of 50,000 to 1,000,000 rows (one for
every 400 comparisons unless given). Every fourth block of small cases runs with internal sizes lowered.
Prints progress, then each kind of failure once, made small and as a test or a program to paste; the last lines sum up:
how many cases were large and which features these used.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

from penstock.data import sizes

from . import campaign, features
from .campaign import Outcome
from .large import campaign as large_campaign

CHUNK, LARGE_CHUNK = 25, 5
LEAST, MOST = 50_000, 1_000_000
"""Rows of a large case."""
COMPARISONS_PER_LARGE = 400
F = TypeVar("F", campaign.Failure, large_campaign.Failure)


def small_chunk(first: int, enabled: frozenset[str], options: dict[str, Any]) -> Outcome:
    warnings.simplefilter("ignore")
    seeds = range(first, first + CHUNK)
    if first // CHUNK % 4 == 3:
        with sizes.lowered():
            return campaign.run(seeds, enabled, options=options)
    return campaign.run(seeds, enabled, options=options)


def large_chunk(first: int) -> large_campaign.Outcome:
    warnings.simplefilter("ignore")
    return large_campaign.run(range(first, first + LARGE_CHUNK), LEAST, MOST)


@dataclass
class Soak:
    """What is wanted, what was done, and what comes next."""

    comparisons: int
    large: int
    failures: int
    small_done: Outcome = field(default_factory=Outcome)
    large_done: large_campaign.Outcome = field(default_factory=large_campaign.Outcome)
    submitted: int = 0
    """Large cases that were submitted."""

    @property
    def compared(self) -> int:
        return self.small_done.tally.comparisons + self.large_done.tally.comparisons

    @property
    def failed(self) -> int:
        return len(self.small_done.failures) + len(self.large_done.failures)

    def next_kind(self) -> str | None:
        """Large cases in step with the comparisons, so that any prefix of the soak is mixed."""
        if self.failed >= self.failures:
            return None
        share = min(self.compared / self.comparisons, 1.0)
        if self.submitted < self.large and self.submitted <= self.large * share:
            return "large"
        if self.compared < self.comparisons:
            return "small"
        return "large" if self.submitted < self.large else None

    def take(self, outcome: Outcome | large_campaign.Outcome) -> None:
        if isinstance(outcome, Outcome):
            self.small_done += outcome
        else:
            self.large_done += outcome


def first_of_each_kind(failures: list[F]) -> Iterator[tuple[int, F]]:
    """(how many there are, the first) of each kind of failure."""
    for kind, number in Counter(f.kind for f in failures).most_common():
        yield number, next(f for f in failures if f.kind == kind)


def report(soak: Soak, seconds: float) -> str:
    """The summary of a soak."""
    small, large = soak.small_done, soak.large_done
    snapshots = small.tally.snapshots + large.tally.snapshots
    replays = small.tally.replays + large.tally.replays
    used = ", ".join(f"{name} {number}" for name, number in sorted(large.constructs.items()))
    return (
        f"features of the large cases: {used or 'none'}\n"
        f"{large.large} cases of {LEAST:,} rows or more ({large.rows:,} rows, {large.seconds:.0f} s of processor time,"
        f" {large.seconds / max(large.cases, 1):.2f} s a case), {large.tally.comparisons} comparisons\n"
        f"{soak.compared} comparisons ({snapshots} snapshots, {replays} replays) in {small.cases + large.cases} cases,"
        f" {soak.failed} failures, {seconds:.0f} s, {soak.compared / max(seconds, 1e-9):.0f}/s"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--comparisons", type=int, default=100_000)
    parser.add_argument("--large", type=int, help="cases of 50,000 rows or more")
    parser.add_argument("--seed", type=int, default=1_000_000, help="first seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--without", default="", help="constructs never to use")
    parser.add_argument("--expiry", default="upa", help="the execution: upa, hybrid, negative or direct")
    parser.add_argument("--eager", type=int, help="time units after which state is looked at")
    parser.add_argument("--failures", type=int, default=20, help="stop after so many")
    arguments = parser.parse_args()
    enabled = features.ALL - features.expand(arguments.without)
    options = {"expiry": arguments.expiry, "eager": arguments.eager}
    large = arguments.comparisons // COMPARISONS_PER_LARGE if arguments.large is None else arguments.large
    soak = Soak(arguments.comparisons, large, arguments.failures)
    began, shown = time.perf_counter(), 0.0
    firsts, large_firsts = count(arguments.seed, CHUNK), count(arguments.seed, LARGE_CHUNK)
    with ProcessPoolExecutor(arguments.jobs) as pool:
        running: set[Future[Any]] = set()
        while True:
            while len(running) < arguments.jobs * 2 and (kind := soak.next_kind()):
                if kind == "large":
                    soak.submitted += LARGE_CHUNK
                    running.add(pool.submit(large_chunk, next(large_firsts)))
                else:
                    running.add(pool.submit(small_chunk, next(firsts), enabled, options))
            if not running:
                break
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                soak.take(future.result())
            if time.perf_counter() - shown > 10:
                shown = time.perf_counter()
                print(f"{soak.compared:>10} comparisons, {soak.small_done.cases} small and {soak.large_done.large}"
                      f" large cases, {soak.failed} failures, {soak.compared / (shown - began):.0f}/s", flush=True)  # fmt: skip
    for number, failure in first_of_each_kind(soak.small_done.failures):
        small = campaign.minimised(failure)
        print(f"\n=== {number} × {failure.kind}\n{small.text}\n\n{campaign.as_example(small)}")
    for number, found in first_of_each_kind(soak.large_done.failures):
        print(f"\n=== {number} × {found.kind}\n{large_campaign.minimised(found).text}")
    print(report(soak, time.perf_counter() - began))
    return 1 if soak.failed else 0


if __name__ == "__main__":
    sys.exit(main())
