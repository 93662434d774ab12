"""`penstock demo`: an hour on two network links, on Spark, in a minute or so, and every answer checked at its end."""

from __future__ import annotations

import tempfile
from collections import Counter
from typing import Any

import pyarrow as pa
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from penstock.errors import PenstockError
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
TOGETHER = 5
"""Minutes of traffic that come at once."""
DROP, ADD, MOVE = 20, 25, 40
"""After how many minutes a query is dropped, one is added, and a host changes owner."""


class Demo:
    """The session, what has happened so far, and what is shown of it."""

    def __init__(self, spark: Any, checkpoint: str) -> None:
        import penstock

        self.world = World()
        self.session = penstock.connect(spark, checkpoint=checkpoint)
        self.session.execute(DECLARATIONS)
        owners = first_owners()
        self.session.create_table("hosts", _table(owners))
        self.world.owners.append((-1, owners))
        self.watches: dict[str, tuple[Watch, Any]] = {}
        self.answers: dict[str, Any] = {}
        self.sent: Counter[str] = Counter()
        self.steps = 0
        self.checks: list[tuple[Watch, int, int, bool]] = []
        for watch in WATCHES:
            self.add(watch)
        self.handle = self.session.start(trigger={"processingTime": "0 seconds"})

    def add(self, watch: Watch) -> None:
        query = self.session.query(watch.sql, name=watch.name)
        query.foreach_batch(lambda frame, _: self.answers.update({watch.name: frame}), mode="view")
        self.watches[watch.name] = (watch, query)

    def minutes(self, first: int, traffic: Traffic) -> str | None:
        """Some minutes of both links; gives a line if something else happened too."""
        for number in range(first, first + TOGETHER):
            north, south = traffic.minute(number)
            self.world.north += north
            self.world.south += south
        begin = 60 * first
        self.session.push("north", arrow([f for f in self.world.north if f.ts >= begin]))
        self.session.push("south", arrow([f for f in self.world.south if f.ts >= begin]))
        self.handle.processAllAvailable()
        for step in self.handle.recentProgress:
            if step["step"] > self.steps:
                self.steps = step["step"]
                self.sent.update({name: told["numOutputRows"] for name, told in step["queries"].items()})
        return self._event(first + TOGETHER)

    def _event(self, minute: int) -> str | None:
        now = self.session.clock
        if minute == DROP:
            self.check("heavy")
            self.watches.pop("heavy")[1].drop()
            return "heavy is dropped; the others go on"
        if minute == ADD:
            self.world.added["busy"] = now
            self.add(BUSY)
            return "busy is added; it sees what comes from now on"
        if minute == MOVE:
            before = self.world.owners[-1][1]
            new_owner = {1: "guests"}
            self.session.update_table("hosts", delete=_table({1: before[1]}), insert=_table(new_owner))
            self.world.owners.append((now + 1, before | new_owner))
            return "host 1 changes owner; earlier rows keep the old one"
        return None

    def check(self, name: str) -> None:
        """Compare a query's answer with the plain Python of its story."""
        watch, now = self.watches[name][0], self.session.clock
        rows = self.answers[name].toArrow()
        got = Counter(zip(*(c.to_pylist() for c in rows.columns), strict=True))
        self.checks.append((watch, now, rows.num_rows, got == watch.answer(self.world, now)))

    def progress_table(self) -> Table:
        table = Table("query", "pattern", "what it watches", "changes", box=None, pad_edge=False)
        for name, (watch, query) in self.watches.items():
            table.add_row(name, str(query.pattern), watch.about, f"{self.sent[name]:,}")
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


def demo(master: str | None = None, checkpoint: str | None = None) -> int:
    """Run the story; 1 if an answer is not what plain Python says."""
    from penstock.runtime.spark.local import local_spark

    console = Console()
    bar = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    task = bar.add_task("minutes", total=MINUTES)
    spark = None
    try:
        with (
            tempfile.TemporaryDirectory(
                prefix="penstock-demo-", dir=checkpoint, ignore_cleanup_errors=True
            ) as folder,
            Live(Group(bar), console=console, refresh_per_second=8) as live,
        ):
            bar.update(task, description="starting Spark")
            spark = local_spark(master, "penstock demo")
            story, traffic = Demo(spark, folder), Traffic(seed=11)
            for first in range(0, MINUTES, TOGETHER):
                event = story.minutes(first, traffic)
                bar.update(task, advance=TOGETHER, description="minutes")
                if event:
                    console.print(f"minute {first + TOGETHER}: {event}")
                live.update(Group(bar, story.progress_table()))
            for name in story.watches:
                story.check(name)
            story.handle.stop()
    except PenstockError as error:
        Console(stderr=True).print(f"error: {error}")
        return 1
    finally:
        if spark is not None:
            spark.stop()
    return _verdict(story, console)


def _verdict(story: Demo, console: Console) -> int:
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
        f"{rows:,} rows in {story.steps} steps on Spark, {sum(story.sent.values()):,} changes,"
        " every answer equal to a recomputation",
        soft_wrap=True,
    )
    return 0
