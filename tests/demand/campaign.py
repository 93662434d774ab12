"""Many drawn cases, every way a join can run against the plainest: `python -m tests.demand.campaign FIRST COUNT`."""

from __future__ import annotations

import random
import sys
from contextlib import nullcontext
from typing import Any

from tests.demand.drawn import answers, make, trees
from tests.demand.hurried import hurried


def tried(seed: int) -> str:
    """What differs, in words; empty if nothing does."""
    case = make(seed)
    rng = random.Random(f"ways {seed}")
    plain, _ = answers(case, None, join="mjoin", share=False, demand="off")
    ways: list[dict[str, Any]] = []
    for demand in ("off", "doe", "jit"):
        probing = rng.choice(("index", "index", "nested"))
        ways.append({"join": "tree", "demand": demand, "tree": trees(rng, case), "probing": probing})
        ways.append({"join": "mjoin", "demand": demand})
    ways += [{"join": "eddy"}, {"join": "auto"}]
    for options in ways:
        cut = rng.choice((1, 4, 40, None))
        with hurried(rng.randrange(1 << 30)) if rng.random() < 0.5 else nullcontext():
            found, _ = answers(case, cut, **options)
        if found != plain:
            lost = [c for c in plain if c not in found]
            more = [c for c in found if c not in plain]
            return f"{case}\n{options} cut {cut}: {len(plain)} and {len(found)}; lost {lost[:3]}, more {more[:3]}"
    return ""


def main() -> int:
    first, count = int(sys.argv[1]), int(sys.argv[2])
    wrong = 0
    for seed in range(first, first + count):
        told = tried(seed)
        sys.stdout.flush()
        if told:
            wrong += 1
            sys.stdout.write(f"{told}\n")
    sys.stdout.write(f"{count} cases, {wrong} wrong\n")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
