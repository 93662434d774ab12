"""`penstock demo`: an hour on two network links in a minute or so, and every answer checked at its end.

On Spark; embedded with `--local`, or where Spark cannot run: the same rows, queries and checks.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from penstock.cli.demo_story import (
    BUSY,
    DECLARATIONS,
    WATCHES,
    Traffic,
    Watch,
    World,
    arrow,
    first_owners,
)
from penstock.errors import PenstockError, StateError

MINUTES = 60
TOGETHER = 5
"""Minutes of traffic that come at once."""
DROP, ADD, MOVE = 20, 25, 40
"""After how many minutes a query is dropped, one is added, and a host changes owner."""
SEED = 11


class Demo(ABC):
    """The session, what has happened so far, and what is shown of it."""

    where: str

    def __init__(self, session: Any) -> None:
        self.world = World()
        self.session = session
        self.session.execute(DECLARATIONS)
        owners = first_owners()
        self.session.create_table("hosts", _table(owners))
        self.world.owners.append((-1, owners))
        self.watches: dict[str, tuple[Watch, Any]] = {}
        self.sent: Counter[str] = Counter()
        self.steps = 0
        self.checks: list[tuple[Watch, int, int, bool]] = []
        for watch in WATCHES:
            self.add(watch)

    def add(self, watch: Watch) -> None:
        query = self.session.query(watch.sql, name=watch.name)
        self.watches[watch.name] = (watch, query)
        self.deliver(watch.name, query)

    @abstractmethod
    def deliver(self, name: str, query: Any) -> None:
        """Have a new query's answer at hand after every step."""

    @abstractmethod
    def apply(self, end: int) -> None:
        """Process the rows pushed, all of which are before `end`."""

    @abstractmethod
    def answer(self, name: str) -> pa.Table:
        """A query's current answer."""

    def minutes(self, first: int, traffic: Traffic) -> str | None:
        """Some minutes of both links; gives a line if something else happened too."""
        for number in range(first, first + TOGETHER):
            north, south = traffic.minute(number)
            self.world.north += north
            self.world.south += south
        begin, end = 60 * first, 60 * (first + TOGETHER)
        for name, flows in (("north", self.world.north), ("south", self.world.south)):
            # Embedded, rows of the same second keep their order of arrival; on Spark it is that of their content.
            self.session.push(name, arrow(sorted((f for f in flows if f.ts >= begin), key=astuple)))
        self.apply(end)
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
        rows = self.answer(name)
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


class LocalDemo(Demo):
    """In this process."""

    where = "embedded"

    def __init__(self) -> None:
        import penstock

        super().__init__(penstock.connect())

    def deliver(self, name: str, query: Any) -> None:
        """Nothing to set up: an embedded query is read when it is needed."""

    def apply(self, end: int) -> None:
        self.session.advance(end - 1)
        self.steps += 1
        for name, (_, query) in self.watches.items():
            self.sent[name] += query.changes().num_rows

    def answer(self, name: str) -> pa.Table:
        answer: pa.Table = self.watches[name][1].snapshot()
        return answer


class SparkDemo(Demo):
    """As a flow on Spark."""

    where = "on Spark"

    def __init__(self, spark: Any, checkpoint: str) -> None:
        import penstock

        self.frames: dict[str, Any] = {}
        super().__init__(penstock.connect(spark, checkpoint=checkpoint))
        self.handle = self.session.start(trigger={"processingTime": "0 seconds"})

    def deliver(self, name: str, query: Any) -> None:
        query.foreach_batch(lambda frame, _: self.frames.update({name: frame}), mode="view")

    def apply(self, end: int) -> None:
        self.handle.processAllAvailable()
        for step in self.handle.recentProgress:
            if step["step"] > self.steps:
                self.steps = step["step"]
                self.sent.update({name: told["numOutputRows"] for name, told in step["queries"].items()})

    def answer(self, name: str) -> pa.Table:
        answer: pa.Table = self.frames[name].toArrow()
        return answer


def _table(owners: dict[int, str]) -> pa.Table:
    return pa.table(
        {"host": pa.array(list(owners), pa.int32()), "owner": pa.array(list(owners.values()), pa.string())}
    )


def demo(master: str | None = None, checkpoint: str | None = None, *, local: bool = False) -> int:
    """Run the story; 1 if an answer is not what plain Python says."""
    console = Console()
    if not local and master is None:
        reason = _no_spark()
        if reason:
            console.print(f"Running embedded: {reason}", soft_wrap=True, markup=False, highlight=False)
            local = True
    try:
        story = _embedded(console) if local else _on_spark(console, master, checkpoint)
    except PenstockError as error:
        Console(stderr=True).print(f"error: {error}", markup=False, soft_wrap=True)
        return 1
    return _verdict(story, console)


def _no_spark() -> str | None:
    """Why there is no Spark on this machine, and what it needs; None if there is."""
    from importlib.util import find_spec

    from penstock.spark.java import use_java

    if find_spec("pyspark") is None:
        return "PySpark is not installed; pip install 'penstock[spark]'"
    try:
        use_java()
    except StateError as error:
        return str(error)
    return None


def _embedded(console: Console) -> Demo:
    return _shown(console, lambda _: LocalDemo())


def _on_spark(console: Console, master: str | None, checkpoint: str | None) -> Demo:
    from penstock.spark.local import do_not_say_cold, local_spark

    spark = None
    with (
        tempfile.TemporaryDirectory(prefix="penstock-demo-") as logs,
        tempfile.TemporaryDirectory(
            prefix="penstock-demo-", dir=checkpoint, ignore_cleanup_errors=True
        ) as folder,
    ):

        def begin(describe: Callable[[str], None]) -> Demo:
            nonlocal spark
            # Here where its notice is seen, and once instead of in every worker process.
            describe("loading kernels")
            LocalDemo().minutes(0, Traffic(SEED))
            do_not_say_cold()
            describe("starting Spark")
            spark = local_spark(master, "penstock demo", log=Path(logs) / "spark.log")
            return SparkDemo(spark, folder)

        try:
            story = _shown(console, begin)
            assert isinstance(story, SparkDemo)
            story.handle.stop()
        finally:
            if spark is not None:
                spark.stop()
    return story


def _shown(console: Console, begin: Callable[[Callable[[str], None]], Demo]) -> Demo:
    """The story from beginning to end, with its progress on the screen."""
    bar = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    task = bar.add_task("minutes", total=MINUTES)

    def describe(what: str) -> None:
        bar.update(task, description=what)

    with Live(Group(bar), console=console, refresh_per_second=8) as live:
        story, traffic = begin(describe), Traffic(SEED)
        for first in range(0, MINUTES, TOGETHER):
            event = story.minutes(first, traffic)
            bar.update(task, advance=TOGETHER, description="minutes")
            if event:
                console.print(f"minute {first + TOGETHER}: {event}")
            live.update(Group(bar, story.progress_table()))
        for name in story.watches:
            story.check(name)
    return story


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
        f"{rows:,} rows in {story.steps} steps {story.where}, {sum(story.sent.values()):,} changes,"
        " every answer equal to a recomputation",
        soft_wrap=True,
    )
    return 0
