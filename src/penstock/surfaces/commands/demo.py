"""`penstock demo`: an hour on two network links in a few seconds, and every answer checked at its end."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from penstock.surfaces.commands.story import (
    BUSY,
    DECLARATIONS,
    WATCHES,
    Traffic,
    Watch,
    World,
    arrow,
    first_owners,
)

MINUTES = 60
DROP, ADD, MOVE = 20, 25, 40
"""The minutes in which a query is dropped, one is added, and a host changes owner."""


class Demo:
    """The session, what has happened so far, and what is shown of it."""

    def __init__(self) -> None:
        import penstock

        self.world = World()
        self.session = penstock.connect()
        self.session.execute(DECLARATIONS)
        owners = first_owners()
        self.session.create_table("hosts", _table(owners))
        self.world.owners.append((-1, owners))
        self.watches: dict[str, tuple[Watch, Any]] = {}
        self.sent: Counter[str] = Counter()
        self.taken_back: Counter[str] = Counter()
        self.checks: list[tuple[Watch, int, int, bool]] = []
        for watch in WATCHES:
            self.add(watch)

    def add(self, watch: Watch) -> None:
        self.watches[watch.name] = (watch, self.session.query(watch.sql, name=watch.name))

    def minute(self, number: int, traffic: Traffic) -> str | None:
        """One minute of both links; gives a line if something else happened too."""
        north, south = traffic.minute(number)
        self.world.north += north
        self.world.south += south
        self.session.push("north", arrow(north))
        self.session.push("south", arrow(south))
        now = 60 * (number + 1) - 1
        self.session.advance(now)
        for name, (_, query) in self.watches.items():
            op = query.changes()["__op"].to_pylist()
            self.sent[name] += op.count("+")
            self.taken_back[name] += op.count("-")
        return self._event(number, now)

    def _event(self, number: int, now: int) -> str | None:
        if number == DROP:
            self.check("heavy", now)
            self.watches.pop("heavy")[1].drop()
            return "heavy is dropped; the others go on"
        if number == ADD:
            self.world.added["busy"] = now
            self.add(BUSY)
            return "busy is added; it sees what comes from now on"
        if number == MOVE:
            before = self.world.owners[-1][1]
            new_owner = {1: "guests"}
            self.session.update_table("hosts", delete=_table({1: before[1]}), insert=_table(new_owner))
            self.world.owners.append((now + 1, before | new_owner))
            return "host 1 changes owner; earlier rows keep the old one"
        return None

    def check(self, name: str, now: int) -> None:
        """Compare a query's answer with the plain Python of its story."""
        watch, query = self.watches[name]
        rows = query.snapshot()
        got = Counter(zip(*(c.to_pylist() for c in rows.columns), strict=True))
        self.checks.append((watch, now, rows.num_rows, got == watch.answer(self.world, now)))

    def progress_table(self) -> Table:
        table = Table("query", "pattern", "what it watches", "+", "−", box=None, pad_edge=False)
        for name, (watch, query) in self.watches.items():
            table.add_row(
                name, str(query.pattern), watch.about, f"{self.sent[name]:,}", f"{self.taken_back[name]:,}"
            )
        return table

    def result_table(self) -> Table:
        table = Table("query", "at", "rows", "recomputed", title="Answers", title_justify="left")
        for watch, now, rows, right in self.checks:
            table.add_row(watch.name, f"{now} s", f"{rows:,}", "equal" if right else "DIFFERS")
        return table


def _table(owners: dict[int, str]) -> pa.Table:
    return pa.table(
        {"host": pa.array(list(owners), pa.int32()), "owner": pa.array(list(owners.values()), pa.string())}
    )


def demo() -> int:
    """Run the story; 1 if an answer is not what plain Python says."""
    console = Console()
    bar = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    task = bar.add_task("minutes", total=MINUTES)
    with Live(Group(bar), console=console, refresh_per_second=8) as live:
        bar.update(task, description="compiling")
        story, traffic = Demo(), Traffic(seed=11)
        for number in range(MINUTES):
            event = story.minute(number, traffic)
            bar.update(task, advance=1, description="minutes")
            if event:
                console.print(f"minute {number}: {event}")
            live.update(Group(bar, story.progress_table()))
    now = 60 * MINUTES - 1
    for name in story.watches:
        story.check(name, now)
    console.print()
    console.print(story.result_table())
    rows = len(story.world.north) + len(story.world.south)
    wrong = sum(not right for *_, right in story.checks)
    if wrong:
        Console(stderr=True).print(
            f"error: {wrong} of {len(story.checks)} answers differ from a recomputation"
        )
        return 1
    console.print(
        f"{rows:,} rows, {sum(story.sent.values()):,} results, every answer equal to a recomputation"
    )
    return 0
