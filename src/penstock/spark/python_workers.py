"""Python workers of Spark's that are stopped (SIGSTOP): found by the state of their process, and killed.

Spark waits for a stopped worker without end. Its own idle timeout (`spark.python.worker.killOnIdleTimeout`) does not help: it
sends SIGTERM, which a stopped process never receives, and it takes a worker for idle that waits for the answer of a long step.
A process in state T does no work, however long its step takes, so no worker at work is ever killed.

Driver and worker processes look a few times within the timeout, and kill a worker that they have found stopped every time. Looks are
counted, not seconds: after a pause of the whole machine the workers get their full time again. Spark forks another worker
when the next task wants one, and starts another daemon if that was the one.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.spark.worker_link import kill_silent

_LOG = logging.getLogger("penstock")
LOOKS = 4
"""Looks within a timeout."""
LONG_STEP = 10
"""Timeouts after which a step is mentioned in the log, and again whenever that time has doubled."""
_PROCESSES = Path("/proc")
_COMMANDS = (b"pyspark.daemon", b"pyspark.worker")
"""In the command line of Spark's daemon, and of the workers it forks."""
_STOPPED = "T"


@dataclass(frozen=True, slots=True)
class Process:
    """A number is used again; with the time of its start, in ticks since the machine's, it is not."""

    number: int
    started: int


class PythonWorkers:
    """The Python workers below Spark's process `spark`, on this machine."""

    def __init__(self, spark: int, timeout: float) -> None:
        self.interval = timeout / LOOKS
        """Seconds between two looks."""
        self._spark = spark
        self._timeout = timeout
        self._stopped: dict[Process, int] = {}
        """How often each of those that are stopped now was found so."""

    def look(self) -> list[int]:
        """Kill those that have been stopped for the timeout; their process numbers."""
        self._stopped = {
            process: self._stopped.get(process, 0) + 1 for process in _stopped_below(self._spark)
        }
        silent = [process.number for process, times in self._stopped.items() if times > LOOKS]
        for number in silent:
            kill_silent(number)
        return silent

    @contextlib.contextmanager
    def watched(self, step: int) -> Iterator[None]:
        """Look again and again while a step runs; a step that takes very long is mentioned in the log."""
        done = threading.Event()

        def watch() -> None:
            began, mention = time.monotonic(), LONG_STEP * self._timeout
            while not done.wait(self.interval):
                for number in self.look():
                    _LOG.warning(
                        "a Python worker of Spark's (process %d) has been stopped for %g s and was killed;"
                        " step %d goes on with another",
                        number,
                        self._timeout,
                        step,
                    )
                if (took := time.monotonic() - began) > mention:
                    mention = 2 * took
                    _LOG.warning("step %d has been running for %.0f s", step, took)

        watching = threading.Thread(target=watch, daemon=True, name="penstock-python-workers")
        watching.start()
        try:
            yield
        finally:
            done.set()
            watching.join()


def _stopped_below(spark: int) -> list[Process]:
    """Stopped processes among Spark's daemons and simple workers, which it starts itself, and workers, which daemons fork."""
    states: dict[int, tuple[Process, int, str]] = {}
    for entry in _PROCESSES.iterdir() if _PROCESSES.is_dir() else ():
        with contextlib.suppress(OSError, IndexError, ValueError):  # it has ended
            number = int(entry.name)
            # The name before the last parenthesis may hold anything.
            fields = (entry / "stat").read_text(errors="replace").rsplit(")", 1)[1].split()
            states[number] = Process(number, int(fields[19])), int(fields[1]), fields[0]
    started = {n for n, (_, parent, _) in states.items() if parent == spark and _is_python_worker(n)}
    return [
        process
        for process, parent, state in states.values()
        if state == _STOPPED
        and (process.number in started or (parent in started and _is_python_worker(process.number)))
    ]


def _is_python_worker(process: int) -> bool:
    try:
        line = (_PROCESSES / str(process) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(command in line for command in _COMMANDS)
