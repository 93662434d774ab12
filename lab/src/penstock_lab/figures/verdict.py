"""A figure's verdict: numbers with limits, whether all of them hold, and one sentence. Nothing here is decided beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock_lab.benchmarks.points import Point
from penstock_lab.figures.bars import FASTER
from penstock_lab.figures.catalogue import Figure
from penstock_lab.figures.data import Data

SOURCE = "Golab & Özsu, Update-Pattern-Aware Modeling and Processing of Continuous Queries, SIGMOD 2005"
QUERIES = 2
"""Of Queries 1, 2 and 4, those on which UPA is to be faster by `FASTER` than the better of NT and DIRECT."""


def judge(figure: Figure, data: Data) -> dict[str, Any]:
    """The JSON object of one figure."""
    bars, aims, paper = figure.bars(data), figure.aims(data), figure.paper(data)
    return {
        "name": figure.name,
        "claim": f"{figure.title}: {figure.claim}",
        "measured": {
            "bars": points_json(bars),
            "aims": points_json(aims),
            "paper": points_json(paper),
            f"at_window_{data.windows[-1]}": {s.name: _numbers(data, s.name) for s in data.series},
        },
        "reference": {
            "measured_against": "the other executions of the same query, on the same rows, in turn with it",
            "paper": f"{SOURCE}, Figure {figure.name.removeprefix('upa-')}: {figure.says}",
        },
        "holds": all(bar.holds for bar in bars),
        "verdict": f"{_lead(figure, data)}; {bars_said(bars)}; {paper_said(paper, figure.why(data))}.",
    }


def judge_all(
    results: Sequence[dict[str, Any]], figures: Sequence[Figure], others: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """The JSON object of all figures, with what is asked of these together; nothing is of the others."""
    reached: dict[int, bool] = {}
    for result, figure in zip(results, figures, strict=True):
        aims = list(result["measured"]["aims"].values())
        if aims:
            reached[figure.query] = reached.get(figure.query, False) or aims[0]["holds"]
    queries = sorted(query for query, holds in reached.items() if holds)
    together = Point(
        f"queries on which UPA is {FASTER} times as fast as the better of NT and DIRECT",
        len(queries),
        QUERIES,
        "",
        at_least=True,
    )
    every = (*results, *others)
    failed = [result["name"] for result in every if not result["holds"]]
    named = ", ".join(map(str, queries)) or "none"
    sentence = (
        f"{len(every) - len(failed)} of {len(every)} claims hold"
        + (f" (not {', '.join(failed)})" if failed else "")
        + f"; UPA is {FASTER} times as fast as the better of NT and DIRECT on Queries {named}"
    )
    return {
        "name": "all",
        "claim": f"the claim of every figure; and {together.name}: at least {QUERIES}",
        "measured": {
            **{r["name"]: {k: r[k] for k in ("holds", "verdict", "measured")} for r in every},
            "together": points_json([together]),
        },
        "reference": {"paper": SOURCE},
        "holds": not failed and together.holds,
        "verdict": f"{sentence}.",
    }


def points_json(points: Sequence[Point]) -> dict[str, Any]:
    return {point.name: point.json() for point in points}


def _numbers(data: Data, name: str) -> dict[str, float]:
    last = data.last(name)
    return {
        "cpu_ms_per_1000_tuples": round(last.median, 4),
        "visits_per_tuple": round(last.visits_per_tuple, 2),
        "results_per_tuple": round(last.results_per_tuple, 4),
        "state_bytes": last.state_bytes,
        "answer_bytes": last.answer_bytes,
    }


def _lead(figure: Figure, data: Data) -> str:
    """UPA beside the others at the largest window."""
    upa = data.last("UPA")
    others = [data.last(s.name) for s in data.series if s.eager is not None and not s.name.startswith("UPA")]
    at = f"at window {data.windows[-1]:,} UPA"
    if figure.space:
        rest = ", ".join(f"{m.series.name} {m.state_bytes / 1e3:,.0f}" for m in others)
        return f"{at} keeps {upa.state_bytes / 1e3:,.0f} KB of operator state, {rest}"
    rest = ", ".join(f"{_short(m.against(upa))}× that with {m.series.name}" for m in others)
    return f"{at} takes {upa.median:.3g} ms of CPU per 1,000 tuples, {rest}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def bars_said(bars: Sequence[Point]) -> str:
    if not bars:
        return ""
    failed = [bar.failure() for bar in bars if not bar.holds]
    if not failed:
        return f"all {len(bars)} bars hold" if len(bars) > 1 else "its bar holds"
    if len(bars) == 1:
        return f"its bar fails ({failed[0]})"
    return f"{len(failed)} of {len(bars)} bars fail ({'; '.join(failed)})"


def paper_said(points: Sequence[Point], why: str) -> str:
    """What of the paper's words is so here, by how much the rest falls short, and why."""
    so = [f"{p.name} ({_short(p.value)})" for p in points if p.holds]
    short = [
        f"{p.name}: {_short(p.value)} {p.unit} where it has {p.limit:g}".replace("  ", " ")
        for p in points
        if not p.holds
    ]
    parts = ["as in the paper " + ", ".join(so)] * bool(so) + ["unlike the paper " + ", ".join(short)] * bool(
        short
    )
    return "; ".join(parts) + (f" ({why})" if short and why else "")
