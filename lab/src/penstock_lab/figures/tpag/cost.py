"""What TP-Ag costs where it gains nothing: no row ever waits, none expires (Figure 5.9).

The same rows with and without sampling, in turn, by CPU time. With few ticks a step the fixed cost of a step is most of it; with many the
cost of a tick is. Told beside it: the bytes of all state.
"""

from __future__ import annotations

from typing import Any

from penstock_lab.benchmarks.runs import now
from penstock_lab.figures.cacq.chart import Data, Sample, Sizes
from penstock_lab.figures.runner import Connect, Tell
from penstock_lab.figures.tpag.runs import FOREVER, PLAIN, SAMPLED, Day, opened, pushed

ENOUGH, ENOUGH_TIME = 10**9, "1000 seconds"
"""Of a step: more than any takes."""
WAYS: dict[str, dict[str, Any]] = {
    SAMPLED: {"allocation": "promote"},
    **{name: {"allocation": how, "sampling": False} for name, how in PLAIN.items()},
}


def measure(sizes: Sizes, tell: Tell, connect: Connect, *, wall: bool = False) -> Data:
    """CPU microseconds a tick; `sizes.xs` are ticks a second, `sizes.rows` seconds."""
    budget = ENOUGH_TIME if wall else ENOUGH
    ways = {name: {"budget": budget, **given} for name, given in WAYS.items()}
    for given in ways.values():
        _run(Day(seconds=10.0), connect, given)
    samples = []
    for rate in sizes.xs:
        day = Day(seconds=float(sizes.rows), rate=float(rate))
        taken: dict[str, list[tuple[float, int]]] = {name: [] for name in ways}
        for turn in range(sizes.turns):
            for name, given in ways.items():
                tell(f"{rate:,} ticks a second: {name}, turn {turn + 1} of {sizes.turns}")
                taken[name].append(_run(day, connect, given))
        for name, every in taken.items():
            more: dict[str, float | None] = {"state_bytes": every[-1][1]}
            samples.append(Sample(name, rate, tuple(one[0] for one in every), more))
    return Data(samples)


def _run(day: Day, connect: Connect, given: dict[str, Any]) -> tuple[float, int]:
    """CPU microseconds a tick, and the most bytes that are kept."""
    session, query = opened(day.text(FOREVER, counted=False), connect, **given)
    feed = day.feed
    held = 0
    began = now()
    for _ in pushed(session, feed, day.step):
        query.changes()
        held = max(held, query.state_bytes)
    return 1e6 * (now() - began) / feed.streams["stock"].num_rows, held
