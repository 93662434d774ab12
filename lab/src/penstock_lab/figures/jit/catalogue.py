"""The figures there are of partial results on demand: 10 to 13 bushy plans, 14 to 17 left-deep ones, and two of our own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock_lab.benchmarks.points import Point
from penstock_lab.figures.bars import at_least
from penstock_lab.figures.cacq.chart import Chart, Data, Measure, Sample, Sizes
from penstock_lab.figures.jit.plans import BUSHY, LEFT_DEEP, Setting, fruitful
from penstock_lab.figures.jit.runs import measured
from penstock_lab.figures.runner import Connect, Tell

SOURCE = "Yang & Papadias, Just-In-Time Processing of Continuous Queries, ICDE 2008"
HOUR = 3600
WORSE = 1.15
"""By so much the way that the engine takes may fall behind the best."""
FRUITFUL = (3, 4, 5)
"""Sources of plans all of whose partial results are needed."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A parameter that is varied: its name, how it is set, and Table III's values for bushy and left-deep plans."""

    name: str
    set: Callable[[Setting, float], Setting]
    bushy: tuple[float, ...]
    left_deep: tuple[float, ...]


AXES = (
    Axis(
        "window, minutes",
        lambda s, x: replace(s, window=round(60 * x)),
        (10, 15, 20, 25, 30),
        (5, 7.5, 10, 12.5, 15),
    ),
    Axis(
        "tuples a second", lambda s, x: replace(s, rate=x), (0.4, 0.7, 1, 1.3, 1.6), (0.4, 0.7, 1, 1.3, 1.6)
    ),
    Axis("sources", lambda s, x: replace(s, sources=round(x)), (4, 5, 6, 7, 8), (3, 4, 5, 6)),
    Axis(
        "greatest value",
        lambda s, x: replace(s, values=round(x)),
        (100, 150, 200, 250, 300),
        (30, 40, 50, 60, 70),
    ),
)


def _ratio(one: Sample, other: Sample, column: str) -> float:
    return (one.more[column] or 0) / max(other.more[column] or 0, 1)


def _judged(default: float, *, bushy: bool, most: float | None) -> Callable[[Data], list[Point]]:
    def bars(data: Data) -> list[Point]:
        pairs = data.both("REF", "JIT")
        ref, jit = next((pair for pair in pairs if pair[0].x == default), pairs[-1])
        found = [
            at_least(
                "partial results at the default, REF against JIT", _ratio(ref, jit, "partial_results"), 10
            )
        ]
        if bushy:
            saved = 100 * (1 - 1 / _ratio(ref, jit, "peak_values"))
            in_bytes = 100 * (1 - 1 / _ratio(ref, jit, "peak_bytes"))
            found.append(
                Point(
                    "peak state saved at the default, partial results by value",
                    saved,
                    62,
                    "%",
                    at_least=True,
                    more={"in_bytes_here": in_bytes},
                )
            )
        ratios = [ref.against(jit) for ref, jit in pairs]
        if most:
            found.append(at_least("CPU time at the largest x, REF against JIT", ratios[-1], most))
        found.append(at_least("CPU time where JIT gains least, REF against JIT", min(ratios), 0.95))
        found.append(_chosen(data))
        return found

    return bars


def _chosen(data: Data) -> Point:
    """What the engine does by itself against the best of the trees, at every x."""
    trees = ("REF", "DOE", "JIT")
    worst = max(auto.against(tree) for name in trees for auto, tree in data.both("AUTO", name))
    return Point("CPU time of AUTO against the best tree, at the worst x", worst, WORSE, "×")


def _paper(data: Data) -> list[Point]:
    """What the paper draws: JIT below REF everywhere, by both measures."""
    pairs = data.both("REF", "JIT")
    return [
        at_least("CPU time everywhere, REF against JIT", min(a.against(b) for a, b in pairs), 1),
        at_least(
            "peak state everywhere, REF against JIT", min(_ratio(a, b, "peak_values") for a, b in pairs), 1
        ),
    ]


def _in_vain(data: Data) -> list[Point]:
    """By rows looked at, which repeat themselves; CPU time of runs this short moves by more than what is asked for."""
    pairs = data.both("REF", "JIT")
    most = max(_ratio(jit, ref, "visits") for ref, jit in pairs)
    cpu = min(ref.against(jit) for ref, jit in pairs)
    return [
        Point(
            "rows looked at where all is fruitful, JIT against REF",
            most,
            1.05,
            "×",
            more={"cpu_ref_against_jit": cpu},
        )
    ]


def _in_vain_by_time(data: Data) -> list[Point]:
    ratios = [ref.against(jit) for ref, jit in data.both("REF", "JIT")]
    return [at_least("CPU time where all is fruitful, REF against JIT", min(ratios), 0.95)]


def _fruitful(sizes: Sizes, tell: Tell, connect: Connect) -> Data:
    settings: list[tuple[float, Setting]] = [(FRUITFUL[i], fruitful(FRUITFUL[i])) for i in sizes.xs]
    return measured(settings, "index", sizes.rows, sizes.turns, tell, connect)


def _lead(data: Data) -> str:
    ref, jit = data.both("REF", "JIT")[-1]
    return (
        f"at the largest x REF makes {ref.more['partial_results']:,.0f} partial results, JIT"
        f" {jit.more['partial_results']:,.0f}; CPU time {ref.value:.3g} s against {jit.value:.3g} s"
    )


def _measure(start: Setting, axis: Axis, xs: tuple[float, ...], probing: str) -> Measure:
    def measure(sizes: Sizes, tell: Tell, connect: Connect) -> Data:
        settings = [(xs[i], axis.set(start, xs[i])) for i in sizes.xs]
        return measured(settings, probing, sizes.rows, sizes.turns, tell, connect)

    return measure


def _chart(
    name: str, start: Setting, axis: Axis, xs: tuple[float, ...], probing: str, most: float | None
) -> Chart:
    """One plan across one parameter; `most`: how many times JIT's CPU time REF's is to be at the largest x."""
    nested, bushy = probing == "nested", start.shape == "bushy"
    default = next(x for x in xs if axis.set(start, x) == start)
    few = (0, xs.index(default), len(xs) - 1)
    state = " and keeps at least 62 % less" if bushy else ""
    ahead = f", at the largest x at most 1/{most:g}" if most else ""
    return Chart(
        name,
        f"{start.shape} plans{', nested loops' if nested else ''}",
        axis.name,
        (
            ("cpu_seconds", "CPU seconds"),
            ("peak_values", "values kept at most"),
            ("partial_results", "partial results made"),
        ),
        f"at the default JIT makes at least 10 times fewer partial results than REF{state}, and its CPU time is nowhere"
        f" over 1/0.95 of REF's{ahead}; what the engine does by itself (AUTO) takes nowhere over 1.15 of the best tree's CPU time",
        "JIT ahead of REF by over an order of magnitude and with up to 62 % less memory"
        if bushy
        else "JIT has a clear advantage over REF, especially for larger windows and rates",
        _measure(start, axis, xs, probing),
        Sizes(few, rows=3 * HOUR if not nested else HOUR, turns=3 if not nested else 1),
        Sizes(tuple(range(len(xs))), rows=5 * HOUR if not nested else 2 * HOUR, turns=5 if not nested else 1),
        _lead,
        _judged(default, bushy=bushy, most=most),
        _paper,
        "the same tree without demand (REF), and stopped only by empty sources (DOE); no tree at all (AUTO)",
        scales=("linear", "log"),
        source=SOURCE,
    )


def charts(probing: str = "index") -> dict[str, Chart]:
    """`probing`: "nested" searches states as the paper's operators do."""
    made = {}
    for number in range(10, 18):
        axis = AXES[(number - 10) % 4]
        start, xs = (BUSHY, axis.bushy) if number < 14 else (LEFT_DEEP, axis.left_deep)
        most = 10 if probing == "nested" and number == 10 else None
        made[f"jit-{number}"] = _chart(f"jit-{number}", start, axis, xs, probing, most)
    made["jit-eight"] = _chart("jit-eight", replace(BUSHY, sources=8), AXES[0], (10, 20, 30), probing, 2)
    made["jit-fruitful"] = Chart(
        "jit-fruitful",
        "bushy plans in which every partial result is needed",
        "sources",
        (("cpu_seconds", "CPU seconds"), ("partial_results", "partial results made")),
        "where every partial result becomes part of an answer, asking costs at most 5 %, in rows looked at",
        "feedback costs little",
        _fruitful,
        Sizes((0, 1), rows=3 * HOUR, turns=9),
        Sizes((0, 1, 2), rows=5 * HOUR, turns=25),
        _lead,
        _in_vain,
        _in_vain_by_time,
        "the same tree without demand (REF)",
        scales=("linear", "linear"),
        source=SOURCE,
    )
    return made
