"""The figures there are: of Golab and Özsu (2005) those with measurements, 9 to 17."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock_lab.benchmarks.points import Point
from penstock_lab.figures import bars, paper
from penstock_lab.figures.data import BATCHED, Data
from penstock_lab.figures.paper import no_reason
from penstock_lab.figures.runner import Series

Judge = Callable[[Data], list[Point]]


def _nothing(_: Data) -> list[Point]:
    return []


@dataclass(frozen=True, slots=True)
class Figure:
    """What is measured, what is asked of it, and what the paper says; `query` is the paper's number."""

    name: str
    query: int
    title: str
    series: tuple[Series, ...]
    claim: str
    says: str
    bars: Judge
    paper: Judge
    aims: Judge = _nothing
    """Asked of some figures together; shown with each."""
    space: bool = False
    """Drawn is what is kept, not what it costs."""
    why: Callable[[Data], str] = no_reason
    """Why less than the paper has, if it is less."""


def _with_batched(*series: Series) -> tuple[Series, ...]:
    """The same again, in the engine's own way."""
    return (*series, *(replace(s, name=s.name + BATCHED, eager=None) for s in series if s.partitions is None))


def _three(query: str) -> tuple[Series, ...]:
    return (Series("NT", query, "negative"), Series("DIRECT", query, "direct"), Series("UPA", query, "upa"))


Q1_FTP = _with_batched(*_three("q1_ftp"))
Q1_TELNET = _with_batched(
    *_three("q1_telnet"),
    Series("UPA(10)", "q1_telnet", "upa", partitions=10),
    Series("UPA(50)", "q1_telnet", "upa", partitions=50),
)
Q2_SOURCE = _with_batched(*_three("q2_source"))
Q2_PAIR = _with_batched(*_three("q2_pair"))
Q3 = _with_batched(
    Series("NT", "q3", "negative"), Series("HYBRID", "q3", "hybrid"), Series("UPA", "q3", "upa")
)
Q4 = _with_batched(*_three("q4"))
Q5 = _with_batched(
    Series("NT", "q5_join_down", "negative", written=True),
    Series("NT(join up)", "q5_join_up", "negative", written=True),
    Series("HYBRID", "q5_join_down", "hybrid", written=True),
    Series("NT(plan chosen)", "q5_join_down", "negative"),
    Series("HYBRID(plan chosen)", "q5_join_down", "hybrid"),
    Series("UPA", "q5_join_down", "upa"),
)
"""The paper's UPA is HYBRID here, its join below the negation (§6.6); UPA is what the engine chooses, and the two before show
what of its gain is the plan's."""

_VISITS = (
    "at the largest window UPA visits at least 2 times fewer tuples of state than the better of NT and DIRECT and 10 times"
    " fewer than the other; at no window, eager or batched, does it take over 5 % more CPU time than either"
)
_CHOICE = "at no window, eager or batched, does UPA take over 10 % more CPU time than the best fixed choice"

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        Figure(
            "upa-9",
            1,
            "Query 1, ftp",
            Q1_FTP,
            _VISITS,
            "UPA nearly twice as fast as the other two as the window grows; DIRECT ahead of NT",
            bars.weak,
            paper.figure_9,
            bars.faster,
        ),
        Figure(
            "upa-10",
            1,
            "Query 1, telnet",
            Q1_TELNET,
            _VISITS,
            "DIRECT by far slowest; UPA(10) good at first, then very slow; UPA(50) up to ten times as fast as NT",
            bars.weak,
            paper.figure_10,
            bars.faster,
            why=paper.stronger_nt,
        ),
        Figure(
            "upa-11",
            2,
            "Query 2, distinct sources",
            Q2_SOURCE,
            f"{_VISITS}; and from the smallest window to the largest its cost grows by at most half",
            "UPA ten times as fast as the other two",
            bars.by_source,
            paper.figure_11,
            bars.faster,
            why=paper.stronger_nt,
        ),
        Figure(
            "upa-12",
            2,
            "Query 2, distinct source-destination pairs",
            Q2_PAIR,
            _VISITS,
            "UPA about twice as fast as NT; DIRECT poor",
            bars.weak,
            paper.figure_12,
            bars.faster,
            why=paper.stronger_nt,
        ),
        Figure(
            "upa-13",
            2,
            "Space of Query 2, distinct sources",
            Q2_SOURCE,
            "at the largest window UPA keeps at least 25 times less operator state than NT and DIRECT",
            "UPA up to a hundred times more space-efficient than NT and DIRECT",
            bars.small_state,
            paper.figure_13,
            space=True,
            why=paper.lighter_rows,
        ),
        Figure(
            "upa-14",
            2,
            "Space of Query 2, distinct source-destination pairs",
            Q2_PAIR,
            "at no window does UPA keep more operator state than NT or DIRECT",
            "UPA significantly more space-efficient",
            bars.smaller_state,
            paper.figure_14,
            space=True,
        ),
        Figure(
            "upa-15",
            3,
            "Query 3, negation",
            Q3,
            _CHOICE,
            "UPA slightly ahead of NT for windows up to about 500 KB, then behind; 40 % of results end prematurely",
            bars.automatic,
            paper.figure_15,
        ),
        Figure(
            "upa-16",
            4,
            "Query 4, join of distinct sources",
            Q4,
            _VISITS,
            "UPA significantly faster, DIRECT slowest; up to a hundred times less space",
            bars.weak,
            paper.figure_16,
            bars.faster,
            why=paper.lighter_rows,
        ),
        Figure(
            "upa-17",
            5,
            "Query 5, negation and join",
            Q5,
            _CHOICE,
            "NT(join up) ahead of NT; UPA (its HYBRID, join down) fastest for sufficiently large windows",
            bars.automatic,
            paper.figure_17,
            why=paper.told_results,
        ),
    )
}
