# ruff: noqa: N999 — named for the command line, never imported
"""Tries the engine on drawn cases and prints the first mismatch in full.

python -m tests.oracle.try --feature join --seeds 100     cases over core constructs that use a join
python -m tests.oracle.try --feature join,distinct        … that may use both; --all-of to insist on both
python -m tests.oracle.try --seed 4711                    one case with everything enabled
python -m tests.oracle.try --list                         names of constructs and groups
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.oracle import campaign, features


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--feature", default="", help="constructs or groups, separated by commas; 'all' for everything"
    )
    parser.add_argument("--without", default="", help="constructs never to use")
    parser.add_argument("--all-of", action="store_true", help="each case uses every construct named")
    parser.add_argument("--seeds", type=int, default=100, help="how many cases")
    parser.add_argument("--start", type=int, default=0, help="first seed")
    parser.add_argument("--seed", type=int, help="just this seed")
    parser.add_argument("--whole", action="store_true", help="print the case as drawn, not made small")
    parser.add_argument("--kinds", action="store_true", help="run on after failures; print one line per kind")
    parser.add_argument("--example", action="store_true", help="also print the case as a test to paste")
    parser.add_argument("--list", action="store_true", help="print the constructs and stop")
    arguments = parser.parse_args()
    if arguments.list:
        print("constructs:", ", ".join(sorted(features.ALL)))
        print("groups:    ", ", ".join(sorted(set(features.IMPLIED) - features.ALL)), "all")
        return 0
    named = features.expand(arguments.feature)
    enabled = features.CORE | named if named else features.ALL
    enabled -= features.expand(arguments.without)
    wanted = frozenset({n for n in arguments.feature.split(",") if n in features.ALL})
    wanted = wanted if arguments.all_of or len(wanted) == 1 else frozenset()
    first = arguments.start if arguments.seed is None else arguments.seed
    seeds = range(first, first + (arguments.seeds if arguments.seed is None else 1))
    outcome = campaign.run(seeds, enabled, wanted, kept=1_000 if arguments.kinds else 1)
    if arguments.kinds:
        kinds = Counter(f.kind for f in outcome.failures)
        for kind, count in kinds.most_common():
            found = [f.seed for f in outcome.failures if f.kind == kind]
            print(f"{count:5} × {kind}   seeds {', '.join(map(str, found[:20]))}")
    elif outcome.failures:
        failure = outcome.failures[0]
        small = failure if arguments.whole else campaign.minimised(failure, seconds=15)
        print(small.text)
        if arguments.example:
            print("\n" + campaign.as_example(small))
    tally, speed = outcome.tally, outcome.tally.comparisons / max(outcome.seconds, 1e-9)
    print(f"\n{outcome.cases} cases, {tally.snapshots} snapshots and {tally.replays} replays compared, "
          f"{len(outcome.failures)} failures, {speed:.0f} comparisons/s")  # fmt: skip
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main())
