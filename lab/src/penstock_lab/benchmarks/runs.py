"""One run of one program over one case: seconds spent inside it, and a checksum of what it gave.

Only pushing and taking changes is timed; making the input batches and summing the output is not. Seconds are
CPU seconds of the whole process: nothing here waits for anything, so on one idle core they are the clock's, and on a
machine that others use too they stay the same (one program was seen at 2.5 M events/s by the clock and at 13 M in CPU seconds).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock_lab.benchmarks.cases import Case
from penstock_lab.benchmarks.changes import Checksum
from penstock_lab.benchmarks.workload import Workload

now = time.process_time


@dataclass(slots=True)
class Run:
    """What one run took and gave."""

    seconds: float = 0.0
    checksum: Checksum = field(default_factory=Checksum)
    state_bytes: int = 0
    """The most held after any step."""


def hand_written(make: Callable[[Workload], Any], work: Workload) -> Run:
    """The limit: one compiled loop that knows its query."""
    run, program = Run(), make(work)
    for step in work.steps():
        began = now()
        tables = program(step)
        run.seconds += now() - began
        for table in tables:
            run.checksum.add(table)
    return run


def open_session(case: Case, work: Workload, **options: Any) -> tuple[Any, Any]:
    """A session with the case's streams and its query."""
    import penstock

    session = penstock.connect(**options)
    session.execute(work.ddl())
    return session, session.query(case.text(), name="bench")


def engine(case: Case, work: Workload, pushes: int = 1, **options: Any) -> Run:
    """Penstock through its public interface, changes taken after every so many pushes of all streams."""
    run = Run()
    session, query = open_session(case, work, **options)
    for number, step in enumerate(work.steps(), 1):
        batches = {name: rows.arrow() for name, rows in step.items()}
        began = now()
        for name, batch in batches.items():
            session.push(name, batch)
        if number % pushes:
            run.seconds += now() - began
            continue
        changes = query.changes()
        run.seconds += now() - began
        run.checksum.add(changes)
        run.state_bytes = max(run.state_bytes, session.engine.size_bytes)
    began = now()
    session.advance(work.last)
    changes = query.changes()
    run.seconds += now() - began
    run.checksum.add(changes)
    run.state_bytes = max(run.state_bytes, session.engine.size_bytes)
    return run


class DataFusion:
    """DataFusion's unbounded plan over CSV files, which its SQL can declare as endless and ordered.

    The query selects the case's columns only, without `__op`, `__ts` and `__exp`, which is less to write.
    """

    def __init__(self, case: Case, work: Workload) -> None:
        import datafusion
        import pyarrow as pa
        import pyarrow.csv

        self.text = (case.elsewhere or "").format(w=case.window, last=case.window - 1)
        self.version: str = datafusion.__version__
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-bench-")
        config = datafusion.SessionConfig().with_target_partitions(1)
        self.context = datafusion.SessionContext(config)
        for name, events in work.streams.items():
            path = Path(self._folder.name) / f"{name}.csv"
            options = pyarrow.csv.WriteOptions(include_header=False)
            pyarrow.csv.write_csv(pa.Table.from_batches([events.arrow()]), path, options)
            self.context.sql(
                f"CREATE UNBOUNDED EXTERNAL TABLE {name} (ts BIGINT NOT NULL, x INT, y INT) STORED AS CSV"
                f" WITH ORDER (ts ASC) LOCATION '{path}' OPTIONS ('format.has_header' 'false')"
            )

    def plan(self) -> str:
        return str(self.context.sql(self.text).execution_plan())

    def run(self) -> tuple[float, int]:
        """Seconds and rows."""
        began = now()
        rows = sum(b.to_pyarrow().num_rows for b in self.context.sql(self.text).execute_stream())
        return now() - began, rows

    def close(self) -> None:
        self._folder.cleanup()
