"""How often each construct is drawn: python -m tests.oracle.coverage [cases]"""

from __future__ import annotations

import sys
from collections import Counter

from . import case as cases
from . import features


def counted(seeds: range) -> Counter[str]:
    """In how many cases each construct is used."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        seen.update(set(+cases.make(seed).constructs()))
    return seen


EXPECTED = frozenset({
    *features.ALL, *features.NESTED, "count(*)", "count", "sum", "avg", "min", "max", "stddev",
    "sum of double", "min of string", "max of time", "count of boolean",
})  # fmt: skip
"""What the standard run must use."""


def main() -> None:
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    for name, count in counted(range(total)).most_common():
        print(f"{count:6}  {100 * count / total:5.1f} %  {name}{'' if name in EXPECTED else '  (also)'}")


if __name__ == "__main__":
    main()
