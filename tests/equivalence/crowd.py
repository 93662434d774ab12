"""Shared = alone: what a query says among many in one session is what it says alone in a session of its own.

A crowd is a list of actions on one session: pushes, `advance`, table updates, and queries that are registered, read, looked at and dropped
in between. Alone, one query goes through the same list without the others; only the public interface is used.

A query sees what comes after the clock at its registration, and the clock is the least watermark of the streams that *some* query
reads: without the others it may stand elsewhere. Two kinds of crowds make it stand at the same instant:

- *kept*: a keeper per stream, a query that reads all of it, is there from the beginning to the end, in the crowd and beside the lone query.
  All streams are always in use, the clock is the same after every action, and queries come and go anywhere.
- *bare*: no keepers. Queries come, are looked at and go only right after an `advance` to an instant that no row and no earlier `advance` has
  passed: then every watermark is that instant plus one, whoever reads what. Here sessions run empty and fill again.

    python -m tests.equivalence.crowd --seconds 600 --seed 1 [--size 200]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

from tests.equivalence.compare import unlike
from tests.equivalence.crowd_case import Act, Crowd, Push, draw
from tests.equivalence.crowd_play import Said, Session, among, by_itself
from tests.equivalence.crowd_queries import Asked
from tests.oracle.check import same
from tests.oracle.shrink import consistent, least
from tests.oracle.streams import Advance, Update

LARGE = {20: 70, 39: 200}
"""Crowds that need more bits than a word has: one in so many of a soak."""


@dataclass
class Outcome:
    crowds: int = 0
    queries: int = 0
    changes: int = 0
    telling: int = 0
    """Queries that said anything."""
    snapshots: int = 0
    refused: int = 0


class Differs(AssertionError):
    """A query among others does not say what it says alone."""

    def __init__(self, crowd: Crowd, query: int | None, what: str) -> None:
        self.crowd, self.query, self.what = crowd, query, what
        super().__init__(what)

    def __str__(self) -> str:
        return report(self)


def difference(asked: Asked, crowd: Said, alone: Said) -> str:
    for name in ("refused", "pattern", "clock"):
        one, other = getattr(crowd, name), getattr(alone, name)
        if one != other:
            return f"{name}: {one!r} among others, {other!r} alone"
    types = () if asked.exact else ("DOUBLE",)
    told = unlike(crowd.changes, alone.changes, types)
    if told:
        return f"changes ('one' among others, 'other' alone): {told}"
    for number, (one, other) in enumerate(zip(crowd.snapshots, alone.snapshots, strict=True)):
        if not same(other, one, types):
            return f"snapshot {number}: {one} among others, {other} alone"
    if crowd.matched != alone.matched:
        return f"matched: {crowd.matched} among others, {alone.matched} alone"
    shown = sum(change.op == "+" for change in crowd.changes)
    return "" if shown == crowd.matched else f"matched is {crowd.matched}, and {shown} rows were delivered"


def check(crowd: Crowd, outcome: Outcome | None = None) -> Outcome:
    """Every query of the crowd; raises `Differs` at the first that says something else alone."""
    outcome = Outcome() if outcome is None else outcome
    together = played(crowd)
    outcome.crowds += 1
    for query, said in together.items():
        against_alone(crowd, query, said)
        outcome.queries += 1
        outcome.changes += len(said.changes)
        outcome.telling += bool(said.changes)
        outcome.snapshots += len(said.snapshots)
        outcome.refused += bool(said.refused)
    return outcome


def played(crowd: Crowd, only: int | None = None) -> dict[int, Said]:
    try:
        return Session(crowd, among(crowd.seed) if only is None else by_itself(only)).play(only)
    except Exception as error:
        where = "among others" if only is None else "alone"
        raise Differs(crowd, only, f"{type(error).__name__} {where}: {error}") from error


def against_alone(crowd: Crowd, query: int, said: Said) -> None:
    told = difference(crowd.queries[query], said, played(crowd, query)[query])
    if told:
        raise Differs(crowd, query, told)


def smaller(differs: Differs, seconds: float = 20.0) -> Differs:
    """The same kind of difference, of the same query, in a smaller crowd."""
    query, found = differs.query, differs

    def fails(crowd: Crowd) -> bool:
        nonlocal found
        try:
            together = played(crowd)
            if query is not None:
                against_alone(crowd, query, together[query])
        except Differs as other:
            if other.what.split(":")[0] == differs.what.split(":")[0]:
                found = other
                return True
        return False

    least(differs.crowd, fails, lambda c: _steps(c, query), seconds)
    return found


def _steps(crowd: Crowd, query: int | None) -> Iterator[Crowd]:
    """Without some of the others; without some of what is fed."""
    others = sorted({a.query for a in crowd.actions if isinstance(a, Act)} - {query})
    for gone in _chunks(others):
        left = (a for a in crowd.actions if not (isinstance(a, Act) and a.query in gone))
        yield replace(crowd, actions=tuple(left))
    # Without keepers an `advance` is what makes clocks agree.
    loose = [i for i, a in enumerate(crowd.actions)
             if (not isinstance(a, Act) or a.what in ("read", "look")) and (crowd.kept or not isinstance(a, Advance))]  # fmt: skip
    for gone in _chunks(loose):
        left = [a for i, a in enumerate(crowd.actions) if i not in gone]
        if consistent(crowd.schema, tuple(a for a in left if isinstance(a, Update))):
            yield replace(crowd, actions=tuple(left))
    for i, action in enumerate(crowd.actions):
        if isinstance(action, Push) and len(action.arrivals) > 1:
            for j in range(len(action.arrivals)):
                fewer = Push.of(crowd.schema, action.arrivals[:j] + action.arrivals[j + 1 :])
                yield replace(crowd, actions=(*crowd.actions[:i], fewer, *crowd.actions[i + 1 :]))


def _chunks(items: list[int]) -> Iterator[set[int]]:
    size = len(items)
    while size >= 1:
        for start in range(0, len(items), size):
            yield set(items[start : start + size])
        size //= 2


def report(differs: Differs) -> str:
    crowd = differs.crowd
    again = f"python -m tests.equivalence.crowd --seconds 0 --seed {crowd.seed}"
    again += "" if crowd.size is None else f" --size {crowd.size}"
    how = f"{'kept' if crowd.kept else 'bare'}, options {among(crowd.seed)}"
    lines = [f"{again}: query {differs.query}; {how}", differs.what, crowd.schema.ddl()]
    for table in crowd.schema.tables:
        lines.append(f"-- table {table.name} {table.columns}: {table.rows}")
    shown = (
        crowd.actions
        if len(crowd.actions) < 60
        else [a for a in crowd.actions if a == Act("add", differs.query)]
    )
    for action in shown:
        if isinstance(action, Act):
            text = f" {crowd.queries[action.query].text}" if action.what == "add" else ""
            lines.append(f"{action.what} q{action.query}{text}")
        elif isinstance(action, Push):
            lines.append(f"push {action.arrivals[0].stream} {[a.row for a in action.arrivals]}")
        else:
            lines.append(str(action))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60, help="0: one crowd")
    parser.add_argument("--seed", type=int, default=1_000_000, help="first seed")
    parser.add_argument(
        "--size", type=int, help="queries in a crowd; otherwise 5 to 40, now and then 70 or 200"
    )
    parser.add_argument("--failures", type=int, default=5, help="stop after so many")
    arguments = parser.parse_args()
    outcome, failures, began = Outcome(), 0, time.monotonic()
    for seed in count(arguments.seed):
        try:
            large = None if arguments.seconds == 0 else LARGE.get(seed % 40)
            check(draw(seed, arguments.size or large), outcome)
        except Differs as differs:
            failures += 1
            print(f"\n=== {smaller(differs)}", flush=True)
        if time.monotonic() - began >= arguments.seconds or failures >= arguments.failures:
            break
    print(
        f"{outcome}, {failures} failures, seeds {arguments.seed} to {seed}, {time.monotonic() - began:.0f} s"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
