"""Random plans as written and as rewritten: the same changes, at the same instants, with the same announced ends."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from penstock.optimizer import optimize, rules
from penstock.plan.catalog import Catalog
from penstock.plan.explain import outline
from penstock.plan.nodes import Node
from penstock.plan.statistics import Statistics
from penstock.sql import bind, parse
from tests.equivalence import executions
from tests.optimizer.drawn import DDL, Maker, rows, statistics
from tests.optimizer.twice import Twice

CASES = int(os.environ.get("PENSTOCK_CASES", "600"))
BLOCK = 20


@pytest.mark.parametrize("first", range(80_000, 80_000 + CASES, BLOCK))
def test_rewritten_plans_say_the_same(first: int) -> None:
    for seed in range(first, first + BLOCK):
        check(seed)


def check(seed: int) -> None:
    rng = random.Random(f"rules {seed}")
    sql = Maker(rng).query()
    options = executions.drawn(seed)
    twice = Twice(DDL, sql, **options)
    plans = [optimize(twice.written), *(optimize(twice.written, statistics(rng)) for _ in range(3))]
    twice.add("written", twice.written)
    for number, plan in enumerate(dict.fromkeys(plans)):
        twice.add(f"rewritten{number}", plan)
    feed(twice, rng)
    said = twice.said()
    for number, plan in enumerate(dict.fromkeys(plans)):
        difference = told(said["written"], said[f"rewritten{number}"])
        if difference:
            pytest.fail(
                f"seed {seed} {options}\n{sql}\nas written\n{outline(twice.written)}\nrewritten\n{outline(plan)}\n{difference}",
                pytrace=False,
            )


def feed(twice: Twice, rng: random.Random, instants: int = 40) -> None:
    """The same rows for all plans, cut at random."""
    pending: dict[str, list[tuple[object, ...]]] = {}
    for ts, news in enumerate(rows(rng, instants)):
        for name, found in news.items():
            pending.setdefault(name, []).extend(found)
        if rng.random() < 0.3 or ts == instants - 1:
            twice.feed(pending, ts)
            pending = {}
    twice.feed({}, instants + 30)


def told(one: Counter[tuple[object, ...]], other: Counter[tuple[object, ...]]) -> str:
    missing, extra = one - other, other - one
    if not missing and not extra:
        return ""
    when = min(change[1] for change in (*missing, *extra))  # type: ignore[type-var]
    lines = [f"first at {when}"]
    lines += [f"  only as written: {c}" for c in sorted(map(str, missing))[:10]]
    lines += [f"  only rewritten:  {c}" for c in sorted(map(str, extra))[:10]]
    return "\n".join(lines)


def test_every_rule_is_met() -> None:
    """Plans drawn here give each rule something to do, many times."""
    changed: Counter[str] = Counter()
    catalog = Catalog()
    for made in parse(DDL):
        stream = bind(made, catalog).stream  # type: ignore[union-attr]
        catalog.streams[stream.name] = stream
    for seed in range(80_000, 80_300):
        rng = random.Random(f"rules {seed}")
        plan = bind(parse(Maker(rng).query())[0], catalog).query.root  # type: ignore[union-attr]
        changed.update(busy(plan, statistics(rng)))
    wanted = {
        "push_filters": 80, "lift_projections": 80, "flatten_joins": 10, "place_negation": 20,
        "intersect_keys": 8, "drop_distinct": 20, "ask_once": 15, "merge_projections": 8,
    }  # fmt: skip
    assert {name: n for name, n in wanted.items() if changed[name] < n} == {}, changed


def busy(plan: Node, known: Statistics) -> set[str]:
    """Which rules change a plan."""
    found = set()
    for rule in rules(known):
        after = rule(plan)
        if after != plan:
            found.add(getattr(rule, "func", rule).__name__)
        plan = after
    return found
