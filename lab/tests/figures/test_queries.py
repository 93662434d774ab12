"""Queries 1 to 5 are understood, have the update patterns of the paper, and answer."""

from __future__ import annotations

from collections import Counter

import pytest

import penstock
from penstock_lab.figures import plan_as_written, queries, trace

WINDOW = 1_500
PATTERNS = {
    "q1_ftp": "WEAK",
    "q1_telnet": "WEAK",
    "q2_source": "WEAK",
    "q2_pair": "WEAK",
    "q3": "STRICT",
    "q4": "WEAK",
    "q5_join_up": "STRICT",
    "q5_join_down": "STRICT",
}
Rows = list[dict[str, object]]


def registered(names: list[str]) -> tuple[penstock.Session, dict[str, penstock.Query]]:
    session = penstock.connect()
    session.execute(trace.DECLARATIONS)
    return session, {name: session.query(queries.text(name, WINDOW), name=name) for name in names}


def test_they_have_the_patterns_that_the_paper_gives_them() -> None:
    _, made = registered(list(PATTERNS))
    assert {name: query.pattern for name, query in made.items()} == PATTERNS


def test_a_plan_as_written_keeps_its_order_and_the_chosen_one_need_not() -> None:
    orders = {}
    for name in ("q5_join_up", "q5_join_down"):
        session = penstock.connect()
        session.execute(trace.DECLARATIONS)
        plan = plan_as_written.register(session, queries.text(name, WINDOW), name).explain()
        orders[name] = plan.index("anti join") < plan.index("join of 2")
    assert orders == {"q5_join_up": False, "q5_join_down": True}
    _, made = registered(["q5_join_up", "q5_join_down"])
    chosen = {query.explain().split("\n", 1)[1] for query in made.values()}
    assert len({plan.index("anti join") < plan.index("join of 2") for plan in chosen}) == 1


def test_a_window_is_a_number_and_nothing_else() -> None:
    assert f"[RANGE {WINDOW}]" in queries.text("q2_source", WINDOW)
    with pytest.raises(ValueError, match="format code"):
        queries.text("q2_source", "1]; DROP QUERY q --")  # type: ignore[arg-type]


def test_they_answer_as_a_loop_over_the_windows_does() -> None:
    session, made = registered(list(PATTERNS))
    rows = trace.make(2 * WINDOW).between(0, 2 * WINDOW)
    for link, batch in rows.items():
        session.push(link, batch)
    now = 2 * WINDOW - 1
    session.advance(now)
    zero, one, two = ([r for r in rows[f"link{i}"].to_pylist() if now < r["ts"] + WINDOW] for i in range(3))
    expected = {
        "q1_ftp": pairs(zero, one, "ftp"),
        "q1_telnet": pairs(zero, one, "telnet"),
        "q2_source": Counter({(r["src"],) for r in zero}),
        "q2_pair": Counter({(r["src"], r["dst"]) for r in zero}),
        "q3": Counter((r["src"],) for r in zero) - Counter((r["src"],) for r in one),
        "q4": Counter({(r["src"],) for r in zero} & {(r["src"],) for r in one}),
    }
    seen = {r["src"] for r in one}
    fetched = [r for r in two if r["protocol"] == "ftp"]
    expected["q5_join_up"] = expected["q5_join_down"] = Counter(
        (r["src"], r["payload"], f["payload"])
        for r in zero
        if r["src"] not in seen
        for f in fetched
        if f["src"] == r["src"]
    )
    for name, query in made.items():
        assert Counter(tuple(r.values()) for r in query.snapshot().to_pylist()) == expected[name], name
    assert all(expected.values())


def pairs(left: Rows, right: Rows, protocol: str) -> Counter[tuple[object, ...]]:
    left, right = ([r for r in rows if r["protocol"] == protocol] for rows in (left, right))
    return Counter(
        (a["src"], a["payload"], b["payload"]) for a in left for b in right if a["src"] == b["src"]
    )
