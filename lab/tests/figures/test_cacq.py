"""Figures of many queries on small data: what is computed is right, runs agree, and verdicts follow from the numbers, both ways."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.errors import StateError
from penstock_lab.baselines import cacq, stocks
from penstock_lab.benchmarks.standing import workload
from penstock_lab.commands.figure import chart_of
from penstock_lab.figures.cacq import (
    filters,
    lineage,
    niagara,
    queries,
    routing,
    routing_report,
    sources,
    tickets,
    udf,
)
from penstock_lab.figures.cacq.catalogue import CHARTS
from penstock_lab.figures.cacq.chart import Data, Sample, Sizes, options
from penstock_lab.figures.cacq.judge import judge
from penstock_lab.figures.catalogue import FIGURES
from penstock_lab.figures.verdict import judge_all

SMALL = {
    "cacq-lineage": Sizes((32, 40), rows=500, turns=2),
    "cacq-queries": Sizes((1, 6), rows=500, turns=2),
    "cacq-sources": Sizes((1, 3), rows=600, turns=2),
    "cacq-niagara": Sizes((1, 5), rows=40, turns=2),
    "cacq-udf": Sizes((1, 2), rows=20, turns=2),
}


def silent(_: str) -> None:
    return None


def anyhow(**_: Any) -> penstock.Session:
    """Whether and how queries share does not change what they are given."""
    return penstock.connect()


def data(lines: Mapping[str, Mapping[float, float]], **more: float | None) -> Data:
    return Data([Sample(s, x, (y,), dict(more)) for s, line in lines.items() for x, y in line.items()])


def failed(result: dict[str, Any]) -> list[str]:
    return [name for name, bar in result["measured"]["bars"].items() if not bar["holds"]]


# ------------------------------------------------------------------ files and verdicts


@pytest.mark.parametrize("name", SMALL)
def test_files_and_verdicts_are_made(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "QUERIES", 12)
    chart = CHARTS[name]
    result = json.loads(json.dumps(chart_of(chart, SMALL[name], tmp_path, silent, anyhow)))
    assert {"name", "claim", "measured", "reference", "holds", "verdict"} == set(result)
    assert result["holds"] is (not failed(result))
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {float(r[chart.across]) for r in rows} == set(SMALL[name].xs)
    assert all(float(r[chart.panels[0][0]]) > 0 and int(r["turns"]) == 2 for r in rows)
    assert {column for column, _ in chart.panels} <= set(rows[0])


def test_only_what_differs_from_the_usual_is_asked_of_a_session() -> None:
    assert options(share=True, routing="thompson") == {}
    assert options(share=False, routing="random") == {"share": False, "routing": "random"}


def test_turns_are_compared_one_by_one() -> None:
    one, other = Sample("a", 1, (1.0, 9.0, 2.0)), Sample("b", 1, (2.0, 18.0, 4.0))
    assert one.against(other) == 0.5 and one.value == 2.0


def test_claims_of_charts_count_among_all() -> None:
    good, bad = (
        {"name": n, "holds": h, "verdict": "", "measured": {}} for n, h in (("x", True), ("y", False))
    )
    result = judge_all([], [], [good, bad])
    assert result["verdict"].startswith("1 of 2 claims hold (not y);")
    assert not set(CHARTS) & set(FIGURES)


# ------------------------------------------------------------------ lineage, queries, sources


def test_queries_that_only_have_a_bit_have_no_results() -> None:
    (batch,) = workload.batches(1, 1000)
    session = penstock.connect()
    session.execute(workload.DECLARATION)
    idle = session.query(lineage.Idle(0).sql())
    session.push(workload.STREAM, batch)
    session.advance(1000)
    assert idle.matched == 0


def test_a_cost_that_grows_with_the_bits_fails() -> None:
    flat, steep = ({"shared": {32: 100.0, 64: 99.0, 3200: p}} for p in (10.0, 1.0))
    assert judge(lineage.CHART, data(flat, lineage_bytes=400))["holds"]
    result = judge(lineage.CHART, data(steep, lineage_bytes=400))
    assert failed(result) == ["cost of a tuple, most bits against fewest, as a share of the ratio of bits"]
    assert "the curve becomes flatter" in result["verdict"]


def test_lineage_that_is_wide_or_not_told_fails() -> None:
    flat = {"shared": {32: 100.0, 64: 99.0, 3200: 90.0}}
    for kept, value in ((None, 0), (900, 0.4444)):
        result = judge(lineage.CHART, data(flat, lineage_bytes=kept))
        (name,) = failed(result)
        assert result["measured"]["bars"][name]["value"] == value


def test_sharing_is_judged_where_both_were_measured() -> None:
    lines = {queries.SHARED: {1: 1.0, 64: 10.0, 1000: 9.0}, queries.APART: {1: 1.0, 64: 4.0}}
    found = judge(queries.CHART, data(lines, tuples_per_second=5.0))
    assert found["holds"]
    assert found["measured"]["bars"]["results/s, shared against each by itself, 64 queries"]["value"] == 2.5
    lines[queries.APART][64] = 6.0
    assert not judge(queries.CHART, data(lines, tuples_per_second=5.0))["holds"]


def test_a_line_over_its_cap_ends() -> None:
    found = queries.measure(Sizes((1, 2, 3), rows=100, turns=1, cap=0.0), silent, anyhow)
    assert {s.x for s in found.samples} == {1}


def test_queries_over_sources_are_as_many_and_over_all() -> None:
    made = sources.texts(3, 50)
    assert len(made) == 50 and made == sources.texts(3, 50)
    assert {text.split(" WHERE ")[0][-2:] for text in made} == {"s0", "s1", "s2"}
    assert all("FROM s0 " in text for text in sources.texts(1, 20))


# ------------------------------------------------------------------ routing


def test_the_optimum_is_what_the_text_says() -> None:
    best, worst = filters.best_and_worst(filters.GROWING, filters.PASSING)
    assert best == pytest.approx(1 + 0.1 + 0.03 + 0.015 + 0.0105)
    assert worst == pytest.approx(5)
    assert best < filters.expected(filters.GROWING, filters.PASSING, filters.at_random) < worst


@pytest.mark.parametrize("order", list(permutations(range(5)))[::17])
def test_expected_visits_are_those_of_a_walk_over_rows(order: Sequence[int]) -> None:
    rows = 4000
    (batch,) = filters.batches(1, rows)
    passed = [
        batch.column(n).to_numpy() < p for n, p in zip(filters.ATTRIBUTES, filters.PASSING, strict=True)
    ]
    visits = 0
    for row in range(rows):
        alive = [set(q.filters) for q in filters.GROWING]
        for f in order:
            if not any(f in left for left in alive):
                continue
            visits += 1
            alive = [left - {f} for left in alive if f not in left or passed[f][row]]
    expected = filters.expected(filters.GROWING, filters.PASSING, filters.by_order(order))
    assert visits / rows == pytest.approx(expected, rel=0.05)


def test_the_five_queries_answer_as_a_plain_loop_does() -> None:
    (batch,) = filters.batches(1, 2000)
    session = penstock.connect()
    session.execute(filters.DECLARATION)
    made = [session.query(q.sql()) for q in filters.GROWING]
    session.push(filters.STREAM, batch)
    session.advance(2000)
    assert [q.matched for q in made] == [q.matches(batch) for q in filters.GROWING]


def test_policies_are_held_to_the_optimum() -> None:
    lines = {name: {0: 5.0} for name in (*routing.POLICIES, routing.ANY, routing.WORST)}
    lines[routing.OPTIMUM] = {0: 1.0}
    fine = data(lines | {"thompson": {0: 1.09}, "tickets": {0: 1.4}, "random": {0: 3.0}})
    assert judge(routing.CHART, fine)["holds"]
    assert (
        "as in the paper random routing visits more than tickets (2.1)"
        in judge(routing.CHART, fine)["verdict"]
    )
    slow = data(lines | {"thompson": {0: 1.2}, "tickets": {0: 1.4}})
    assert failed(judge(routing.CHART, slow)) == ["visits with Thompson sampling against the optimum"]


def test_what_a_session_tells_is_read_by_stream() -> None:
    one = {"operator": "filter on alpha", "queries": ["q"], "predicates": 1, "rows": 7, "passed": 3}
    one |= {"tickets": 2.5, "selectivity": 0.4, "cost_ns": 3.0}
    of_one = {"rows": 9, "visits": 11, "operators": [one], "lineage_bytes": 8}
    text = json.dumps({"streams": {"readings": of_one}, "stems": [], "tails": []})
    found = routing_report.read(text, "readings")
    assert (found.rows, found.visits, found.lineage_bytes) == (9, 11, 8)
    assert found.operators == (routing_report.Operator("filter on alpha", 7, 3, 2.5),)


# ------------------------------------------------------------------ tickets


def test_an_operator_is_known_by_its_attribute() -> None:
    assert tickets.attribute("grouped filter readings.beta") == "beta"
    with pytest.raises(StateError, match="no filter on one of alpha"):
        tickets.attribute("SteM")


def test_shares_are_of_the_whole_and_debts_are_nothing() -> None:
    assert tickets.shares({"a": 3.0, "b": 1.0, "c": -5.0}) == {"a": 0.75, "b": 0.25, "c": 0.0}
    assert tickets.shares({"a": 0.0}) == {"a": 0.0}


def history(*phases: Sequence[float]) -> Data:
    """The share of epsilon in every second, phase by phase; alpha has the rest."""
    samples, second = [], 0.0
    for count, phase in enumerate(phases, 1):
        for share in phase:
            second += 1
            more = {"queries": float(count), "visits_share": share, "tuples": 10 * second}
            samples += [Sample("alpha", second, (1 - share,), dict(more))]
            samples += [Sample("epsilon", second, (share,), dict(more))]
    return Data(samples)


def test_shares_settle_when_they_are_near_for_good() -> None:
    found = history([0.0] * 40, [0.0] * 4 + [0.8] * 36)
    assert tickets.settling(found, 1) == tickets.Settling(0.0, 0.0, 40.0)
    # The mean of five is near as soon as all five are after the fourth.
    assert tickets.settling(found, 2) == tickets.Settling(8.0, 80.0, 40.0)
    restless = history([0.0] * 40, [0.0, 0.8] * 20)
    assert tickets.settling(restless, 2).seconds < 10
    assert tickets.settling(history([0.0] * 40, [0.2] * 30 + [0.8] * 10), 2).seconds > 30


def test_tickets_are_judged_by_time_and_by_who_has_most() -> None:
    first, slow = CHARTS["cacq-tickets-1"], history([0.0] * 40, [0.0] * 4 + [0.8] * 36)
    result = judge(first, slow)
    assert failed(result) == ["the longest until shares settle after a query"]
    assert result["measured"]["bars"][failed(result)[0]]["query_2"] == 8.0
    assert judge(first, history([0.2] * 4, [0.8] * 1))["holds"]
    third = judge(CHARTS["cacq-tickets-3"], history([0.2] * 4, [0.8] * 4))
    assert failed(third) == ["tickets of alpha against the next most at the end"]


def test_the_three_workloads_are_what_they_are_said_to_be() -> None:
    one, two, three = (w.queries for w in tickets.WORKLOADS)
    assert [q.below for q in one] == [((i, p),) for i, p in enumerate((90, 70, 50, 30, 10))]
    assert [sum(f in q.filters for q in two) for f in range(5)] == [1, 2, 3, 4, 5]
    assert {n for q in two for _, n in q.below} == {50}
    assert three == filters.GROWING


# ------------------------------------------------------------------ static plans


def test_programs_that_give_other_rows_are_a_loud_error() -> None:
    market = stocks.market(2, symbols=20)
    constants = [0, 50_000]
    programs = {
        "one": cacq.by_constants(market, constants, penstock.connect()),
        "other": niagara.JoinFirst(market.articles, [0, 40_000], penstock.connect()),
    }
    with pytest.raises(StateError, match="one and other differ here: query 1 is given other rows"):
        niagara.in_turn(programs, market, "here", silent)


def test_the_static_plans_are_judged_at_the_most_queries() -> None:
    lines = {name: {1: 1.0, 100: 10.0} for name in (niagara.CACQ, niagara.COUNTED, *niagara.STATIC)}
    assert judge(niagara.CHART, data(lines))["holds"]
    lines[niagara.JOIN_FIRST] = {1: 2.0, 100: 9.0}
    result = judge(niagara.CHART, data(lines))
    assert failed(result) == ["time of join-first against CACQ, 100 queries"]
    assert "as in the paper push-down is slower" in result["verdict"]


def test_functions_are_judged_with_one_article_and_with_the_most() -> None:
    def lines(most: float) -> Data:
        return data({udf.CACQ: {1: 10.0, 10: 10.0}, udf.JOIN_FIRST: {1: 9.0, 10: most}})

    assert judge(udf.CHART, lines(80.0))["holds"]
    assert failed(judge(udf.CHART, lines(29.0))) == ["time of join-first against CACQ, 10 articles a quote"]


def test_rows_are_the_same_for_the_same_seed() -> None:
    one, same, other = (next(filters.batches(1, 50, start=s)) for s in (0, 0, 50))
    assert one.equals(same) and not one.equals(other)
    assert isinstance(one, pa.RecordBatch)
    assert np.all(other.column("ts").to_numpy() == np.arange(50, 100))
