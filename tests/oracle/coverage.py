"""How often each construct is drawn: python -m tests.oracle.coverage [cases]

Small cases, and large ones; cases with lowered internal sizes are drawn as both are.
"""

from __future__ import annotations

import sys
from collections import Counter

from tests.oracle import case as cases
from tests.oracle import features
from tests.oracle.large import draw
from tests.oracle.large.course import LARGE


def counted(seeds: range) -> Counter[str]:
    """In how many cases each construct is used."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        seen.update(set(+cases.make(seed).constructs()))
    return seen


def counted_large(seeds: range, least: int = LARGE, most: int = 1_000_000) -> Counter[str]:
    """In how many large cases each construct is used."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        seen.update(set(+draw.make(seed, least, most, lean=3.0).constructs()))
    return seen


EXPECTED = frozenset({
    *features.ALL, *features.NESTED, "count(*)", "count", "sum", "avg", "min", "max", "stddev",
    "sum of double", "min of string", "max of time", "count of boolean",
})  # fmt: skip
"""What the standard run must use."""

KINDS = ("INT", "BIGINT", "STRING", "DOUBLE", "TIMESTAMP", "DATE", "SMALLINT", "FLOAT")
GROUP_KINDS = (*KINDS, "TINYINT", "BOOLEAN")
EXPECTED_LARGE = frozenset({
    *(f"join by {kind}" for kind in KINDS), *(f"group by {kind}" for kind in GROUP_KINDS),
    *(f"distinct {kind}" for kind in GROUP_KINDS), *(f"set of {kind}" for kind in GROUP_KINDS),
    *(f"{name}={value}" for name, values in draw.OPTIONS.items() for value in values),
    *features.WINDOWS, *features.OUTER, *features.SETS, *features.ANTI, *features.TABLES, "istream", "dstream",
    "join3", "join4", "join_many", "self_join", "theta", "group", "having", "global", "count_distinct", "stddev",
    "group_expression", "hidden key", "cte", "deep", "depth 4", "left join of lookups", "table below negation",
    "late", "disorder", "empty push", "idle", "zipf", "NULL key", "shared stream", "several", "register_late", "drop",
    "timestamp", "update", "update ahead", "update before rows", "budget", "ample budget", "cells", "arithmetic", "case",
})  # fmt: skip
"""What large cases must use."""


def main() -> None:
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    small, large = counted(range(total)), counted_large(range(total // 4))
    print("   small   large  construct, share of cases in per cent")
    for name in sorted({*small, *large}):
        shares = (100 * small[name] / total, 400 * large[name] / total)
        expected = name in EXPECTED or name in EXPECTED_LARGE
        print(f"{shares[0]:8.1f}{shares[1]:8.1f}  {name}{'' if expected else '  (also)'}")


if __name__ == "__main__":
    main()
