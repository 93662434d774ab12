"""However the same arrivals are cut into pushes, the same changes come out at the same instants."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest

from tests.equivalence.compare import difference
from tests.oracle import case as cases
from tests.oracle.case import Case
from tests.oracle.check import Mismatch
from tests.oracle.streams import Arrival, Register
from tests.oracle.trace import Cut, Trace, record

CASES = int(os.environ.get("PENSTOCK_CASES", "600")) // 5
BLOCK = 10


def hold(case: Case, one: Trace, other: Trace, what: str) -> None:
    told = difference(case, one, other)
    if told:
        pytest.fail(str(Mismatch(f"{what}\n{told}", case)), pytrace=False)


@pytest.mark.parametrize("first", range(50_000, 50_000 + CASES, BLOCK))
def test_a_cut_changes_nothing(first: int) -> None:
    for seed in range(first, first + BLOCK):
        case = cases.make(seed)
        whole = record(case, Cut("whole"), quiet=True)
        hold(
            case,
            whole,
            record(case, Cut("single")),
            "one row at a time differs from pushes as large as can be",
        )
        hold(
            case,
            whole,
            record(case, Cut("random", seed)),
            "a random cut differs from pushes as large as can be",
        )


@pytest.mark.parametrize("first", range(60_000, 60_000 + CASES // 2, BLOCK))
def test_order_between_streams_changes_nothing(first: int) -> None:
    for seed in range(first, first + BLOCK):
        case = cases.make(seed)
        rows = [e for e in case.events if isinstance(e, Arrival)]
        start = [Register(i) for i in range(len(case.queries))]
        whole = replace(case, events=(*start, *rows))
        shuffled = replace(case, events=(*start, *interleaved(rows, random.Random(seed))))
        hold(
            case,
            record(whole, Cut("random", seed)),
            record(shuffled, Cut("random", seed)),
            "order between streams matters",
        )


def interleaved(rows: list[Arrival], rng: random.Random) -> list[Arrival]:
    """The same rows; only the order within each stream is kept."""
    queues: dict[str, list[Arrival]] = {}
    for row in rows:
        queues.setdefault(row.stream, []).append(row)
    order = [row.stream for row in rows]
    rng.shuffle(order)
    return [queues[name].pop(0) for name in order]
