"""A long campaign: python -m tests.oracle.soak --comparisons 1000000 [--seed 0] [--jobs 2]

Prints progress, then each kind of failure once, made small and as a test to paste; the last line sums up.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import count
from typing import Any

from . import campaign, features
from .campaign import Outcome

CHUNK = 25


def chunk(first: int, enabled: frozenset[str], options: dict[str, Any]) -> Outcome:
    return campaign.run(range(first, first + CHUNK), enabled, options=options)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--comparisons", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1_000_000, help="first seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--without", default="", help="constructs never to use")
    parser.add_argument("--expiry", default="upa", help="the execution: upa, hybrid, negative or direct")
    parser.add_argument("--eager", type=int, help="time units after which state is looked at")
    parser.add_argument("--failures", type=int, default=20, help="stop after so many")
    arguments = parser.parse_args()
    enabled = features.ALL - features.expand(arguments.without)
    options = {"expiry": arguments.expiry, "eager": arguments.eager}
    total, began, shown = Outcome(), time.perf_counter(), 0.0
    firsts = count(arguments.seed, CHUNK)
    with ProcessPoolExecutor(arguments.jobs) as pool:
        running: set[Future[Outcome]] = {
            pool.submit(chunk, next(firsts), enabled, options) for _ in range(arguments.jobs * 2)
        }
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                total += future.result()
            enough = (
                total.tally.comparisons >= arguments.comparisons or len(total.failures) >= arguments.failures
            )
            if not enough:
                running |= {pool.submit(chunk, next(firsts), enabled, options) for _ in done}
            if time.perf_counter() - shown > 10:
                shown = time.perf_counter()
                print(f"{total.tally.comparisons:>10} comparisons, {total.cases} cases, {len(total.failures)} failures, "
                      f"{total.tally.comparisons / (shown - began):.0f}/s", flush=True)  # fmt: skip
    kinds = Counter(f.kind for f in total.failures)
    for kind, number in kinds.most_common():
        failure = next(f for f in total.failures if f.kind == kind)
        small = campaign.minimised(failure)
        print(f"\n=== {number} × {kind}\n{small.text}\n\n{campaign.as_example(small)}")
    seconds = time.perf_counter() - began
    tally = total.tally
    print(f"{tally.comparisons} comparisons ({tally.snapshots} snapshots, {tally.replays} replays) in {total.cases} cases, "
          f"{len(total.failures)} failures, {seconds:.0f} s, {tally.comparisons / seconds:.0f}/s")  # fmt: skip
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
