"""Joins drawn at random: a graph of equalities, windows, rows, and how the rows are cut into pushes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import penstock
from penstock.api.session import Session
from penstock.plan.join_tree import Pairs, leaves

GRAPHS = ("clique", "chain", "star", "cycle", "shared", "random")
DELAY = 3


@dataclass(frozen=True)
class Case:
    """A join query over `sources` inputs, its streams, and rows in the order they come: (stream, row)."""

    seed: int
    ddl: str
    query: str
    sources: int
    rows: list[tuple[str, dict[str, Any]]]
    last: int
    windows: list[int | None]
    edges: list[tuple[int, int]]

    def __str__(self) -> str:
        return f"case {self.seed}: {self.query}"


def edges(rng: random.Random, graph: str, n: int) -> list[tuple[int, int]]:
    pairs = list(combinations(range(n), 2))
    if graph == "clique":
        return pairs
    if graph == "star":
        hub = rng.randrange(n)
        return [(hub, i) for i in range(n) if i != hub]
    order = rng.sample(range(n), n) if graph == "random" else list(range(n))
    chain = list(pairwise(order))
    if graph == "cycle" and n > 2:
        return [*chain, (0, n - 1)]
    if graph == "random":
        # A tree, some edges more, and some pairs that are compared twice.
        tree = [(order[rng.randrange(i)], order[i]) for i in range(1, n)]
        more = rng.sample(pairs, rng.randrange(min(4, len(pairs) + 1)))
        return tree + more
    return chain


def make(
    seed: int, sources: int | None = None, graph: str | None = None, lonely: float | None = None
) -> Case:
    """`lonely`: so many rows of some streams equal nobody's; None: drawn."""
    rng = random.Random(f"tree {seed}")
    n = sources or rng.choice((3, 3, 3, 4, 4, 5, 6, 7, 8))
    graph = graph or rng.choice(GRAPHS)
    # "shared": all inputs are compared by one column; there and elsewhere streams may occur twice.
    streams = list(range(n))
    if rng.random() < 0.25:
        streams[rng.randrange(1, n)] = 0
    columns: dict[int, set[str]] = {s: set() for s in streams}
    conditions = []
    texts = rng.random() < 0.3
    pairs = edges(rng, graph, n)
    for number, (i, j) in enumerate(pairs):
        name = "k0" if graph == "shared" else f"k{number}"
        if texts and number % 2 == 0:
            name += "s"
        columns[streams[i]].add(name)
        columns[streams[j]].add(name)
        left, right = (
            (f"t{i}.{name}", f"t{j}.{name}") if rng.random() < 0.5 else (f"t{j}.{name}", f"t{i}.{name}")
        )
        conditions.append(f"{left} = {right}")
    ddl = "; ".join(
        f"CREATE STREAM s{s} (ts BIGINT, v INT, {', '.join(f'{c} ' + ('STRING' if c[-1] == 's' else 'INT') for c in sorted(own))}) "
        f"WATERMARK ts DELAY OF {DELAY}"
        for s, own in columns.items()
    )
    longest = rng.choice((6, 12, 30))
    windows = [rng.choice((longest, rng.randrange(1, longest + 1))) for _ in range(n)]
    endless = rng.randrange(n) if rng.random() < 0.1 else -1
    froms = ", ".join(
        f"s{streams[i]} [{'UNBOUNDED' if i == endless else f'RANGE {windows[i]}'}] AS t{i}" for i in range(n)
    )
    query = f"SELECT {', '.join(f't{i}.v AS v{i}' for i in range(n))} FROM {froms} WHERE {' AND '.join(conditions)}"
    other = random.Random(f"lonely {seed}")
    if lonely is None:
        lonely = other.choice((0.0, 0.0, 0.6, 0.95))
    alone = {s: lonely for s in columns if other.random() < 0.5}
    rows = list(_apart(other, _rows(rng, columns, n, longest), alone))
    last = max((row["ts"] for _, row in rows), default=0)
    ends = [None if i == endless else w for i, w in enumerate(windows)]
    return Case(seed, ddl, query, n, rows, last, ends, pairs)


def _rows(
    rng: random.Random, columns: dict[int, set[str]], n: int, longest: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of a few families agree in all they are compared by, but for a value now and then; so there are answers, and much
    that nearly is one. Answers are about as many as rows."""
    families = max(2, round(longest * rng.choice((0.3, 0.6, 1.0)) * (0.7 + n / 10)))
    astray = rng.choice((0.0, 0.1, 0.3)) / (1 if n < 5 else 3)
    rates = {s: rng.choice((0.2, 0.5, 1.0)) for s in columns}
    now = 0
    number = 0
    for _ in range(rng.choice((60, 150, 300)) if n < 6 else 100):
        if rng.random() < 0.02:
            now += rng.randrange(3 * longest)
        if rng.random() < 0.05:
            # A stream falls silent, or comes to life.
            rates[rng.choice(list(rates))] = rng.choice((0.0, 0.2, 1.0, 1.0))
        now += rng.random() < 0.6
        for s, own in columns.items():
            if rng.random() < rates[s]:
                ts = max(0, now - rng.randrange(DELAY + 1))
                row: dict[str, Any] = {"ts": ts, "v": number}
                family = rng.randrange(families)
                for c in own:
                    value = rng.randrange(families) if rng.random() < astray else family
                    row[c] = f"text {value}" if c[-1] == "s" else value
                    if rng.random() < 0.02:
                        row[c] = None
                number += 1
                yield f"s{s}", row


def _apart(
    rng: random.Random, rows: Iterator[tuple[str, dict[str, Any]]], alone: dict[int, float]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Of some streams most rows equal nobody in one of their columns."""
    for number, (name, row) in enumerate(rows):
        if rng.random() < alone.get(int(name[1:]), 0.0):
            column = rng.choice([c for c in row if c[0] == "k"])
            row[column] = f"alone {number}" if column[-1] == "s" else -1 - number
        yield name, row


def trees(rng: random.Random, case: Case) -> str | Pairs:
    """A shape by name, or drawn pairs; of inputs that are not compared only if there are few, for these multiply."""
    n = case.sources
    if n <= 5 and rng.random() < 0.5:
        return rng.choice(("left-deep", "right-deep", "bushy"))
    parts: list[Pairs] = rng.sample(range(n), n)
    while len(parts) > 1:
        ways = [(a, b) for a, b in combinations(parts, 2) if n <= 4 or _compared(case, a, b)]
        a, b = rng.choice(ways)
        parts = [p for p in parts if p not in (a, b)] + [(a, b) if rng.random() < 0.5 else (b, a)]
    return parts[0]


def _compared(case: Case, left: Pairs, right: Pairs) -> bool:
    some, others = set(leaves(left)), set(leaves(right))
    return any((i in some and j in others) or (j in some and i in others) for i, j in case.edges)


def session(case: Case, **options: Any) -> Session:
    made = penstock.connect(replan=False, **options)
    made.execute(case.ddl)
    return made


def pushes(case: Case, cut: int | None) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """The rows in pieces: one at a time (cut 1), by a drawn size, or all at once (None)."""
    if cut is None:
        yield case.rows
        return
    rng = random.Random(f"cut {case.seed} {cut}")
    at = 0
    while at < len(case.rows):
        size = 1 if cut == 1 else rng.randrange(1, cut + 1)
        yield case.rows[at : at + size]
        at += size


def push(target: Session, rows: list[tuple[str, dict[str, Any]]]) -> None:
    """Runs of rows of one stream, as they come."""
    run: list[dict[str, Any]] = []
    for at, (name, row) in enumerate(rows):
        run.append(row)
        if at + 1 == len(rows) or rows[at + 1][0] != name:
            target.push(name, run)
            run = []


Changes = list[tuple[Any, ...]]


def answers(case: Case, cut: int | None, **options: Any) -> tuple[Changes, Session]:
    """All changes of the query, as multisets per instant, and the session after its windows have passed."""
    made = session(case, **options)
    query = made.query(case.query, name="q")
    said: Changes = []
    for piece in pushes(case, cut):
        push(made, piece)
        said += map(tuple, (row.values() for row in query.changes().to_pylist()))
    made.advance(case.last + 100)
    said += map(tuple, (row.values() for row in query.changes().to_pylist()))
    assert [c[1] for c in said] == sorted(c[1] for c in said), "changes come in time order"
    return sorted(said, key=repr), made
