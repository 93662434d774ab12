"""A Spark standalone cluster on this machine, from PySpark's own jars; for tests and trials.

    python scripts/cluster.py [--workers 2]    # prints the master's address and waits

Every worker has one core and a folder for temporary files of its own, so that two of them are as far apart as two machines that
share a file system. Needs Java 17; run it with the Python that has PySpark.
"""
# ruff: noqa: INP001 - a script

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib.util
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from penstock.errors import StateError
from penstock.spark.java import use_java

PATIENCE = 60.0
"""Seconds a cluster may take to start."""
MEMORY = "1g"
"""What a worker offers: one executor of Spark's default size."""
TIMEOUT = 10
"""Seconds after which the master gives up a worker that is silent."""
OPENED = (
    "java.lang",
    "java.lang.invoke",
    "java.net",
    "java.nio",
    "java.util",
    "sun.nio.ch",
    "sun.security.action",
)
"""What Spark reaches into on Java 17."""


class Unavailable(Exception):  # noqa: N818 - a state of affairs
    """What is needed is not on this machine; says why."""


class Cluster:
    """A master and workers for as long as the block lasts, or this process lives."""

    master: str
    """What `SparkSession.builder.master` takes."""
    workers: list[int]
    """Process numbers."""

    def __init__(self, workers: int = 2) -> None:
        self._number = workers

    def __enter__(self) -> Self:
        command = [sys.executable, str(Path(__file__).resolve()), "--hold", "--workers", str(self._number)]
        self._holder = subprocess.Popen(  # noqa: S603 - this script
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, text=True
        )
        assert self._holder.stdout is not None
        with self._holder.stdout as told:
            answer = json.loads(told.readline() or '{"error": "the holder of the cluster died"}')
        if "error" in answer:
            self.__exit__()
            raise Unavailable(answer["error"])
        self.master, self.workers, self._page = answer["master"], answer["workers"], answer["page"]
        return self

    def __exit__(self, *_: object) -> None:
        assert self._holder.stdin is not None
        self._holder.stdin.close()
        self._holder.wait(60)

    def status(self) -> dict[str, Any]:
        """What the master knows: its workers and applications."""
        return _status(self._page)

    def executors(self, number: int) -> list[int]:
        """The processes of a worker's executors."""
        return [pid for pid in below(self.workers[number]) if b"ExecutorBackend" in _line(pid)]

    def kill(self, number: int) -> None:
        """End a worker and its executors as a machine that loses power does; their Python processes are left to find out."""
        executors = self.executors(number)
        for process in (self.workers[number], *executors):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def below(process: int) -> list[int]:
    """All processes that one has started, and those have."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    left = list(children.get(process, []))
    while left:
        found.append(left.pop())
        left += children.get(found[-1], [])
    return found


def _line(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def _status(page: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{page}/json/", timeout=5) as answer:  # noqa: S310 - our own master
        found: dict[str, Any] = json.load(answer)
    return found


# ---------------------------------------------------------------------- the process that holds it


def _hold(workers: int) -> None:
    """Run a cluster in a folder of its own; say where it is; end it when nobody needs it any more."""
    try:
        with (
            tempfile.TemporaryDirectory(prefix="penstock-cluster-", ignore_cleanup_errors=True) as folder,
            _running(Path(folder), workers) as answer,
        ):
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
            while select.select([sys.stdin], [], [])[0] and os.read(sys.stdin.fileno(), 1):
                pass
    except Unavailable as reason:
        sys.stdout.write(json.dumps({"error": str(reason)}) + "\n")


@contextlib.contextmanager
def _running(folder: Path, workers: int) -> Iterator[dict[str, Any]]:
    for attempt in range(3):  # a port found free may be taken by the time it is used
        port, page = _free_ports()
        master, where = f"spark://127.0.0.1:{port}", f"http://127.0.0.1:{page}"
        started = []
        try:
            place = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)]
            started.append(_java(folder / f"master-{attempt}", "master.Master", place))
            for number in range(workers):
                work = folder / f"{attempt}{number}"
                offer = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", MEMORY]
                offer += ["--work-dir", str(work), master]
                started.append(_java(work, "worker.Worker", offer))
            if _answers(started, where, workers):
                yield {"master": master, "page": where, "workers": [w.pid for w in started[1:]]}
                return
        finally:
            _end(started)
    told = "\n".join(log.read_text(errors="replace")[-1000:] for log in sorted(folder.glob("*/log")))
    raise Unavailable(f"the cluster does not start: {told}")


def _java(folder: Path, what: str, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    try:
        java = use_java()
    except StateError as error:
        raise Unavailable(str(error)) from None
    spark = importlib.util.find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise Unavailable("PySpark is not installed")
    home = Path(spark.origin).parent
    (folder / "tmp").mkdir(parents=True)
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))},
        "SPARK_HOME": str(home),
        "SPARK_SCALA_VERSION": _scala(home / "jars"),  # what Spark's own scripts tell a worker
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TMPDIR": str(folder / "tmp"),  # of executors and what they start too
        "JDK_JAVA_OPTIONS": os.environ.get("SPARK_SUBMIT_OPTS", ""),  # executors as the driver
    }
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    settings = [f"-Dspark.worker.timeout={TIMEOUT}", f"-Djava.io.tmpdir={folder / 'tmp'}"]
    command = [
        str(java.executable),
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
        *opened,
        *settings,
        "-cp",
        str(home / "jars" / "*"),
    ]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(  # noqa: S603
            [*command, f"org.apache.spark.deploy.{what}", *arguments],
            env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=_end_with_parent,  # noqa: PLW1509
        )  # fmt: skip


def _scala(jars: Path) -> str:
    """The Scala that Spark's jars are made for, as their names say."""
    return next(jar.name for jar in jars.glob("spark-core_*.jar")).split("_")[1].split("-")[0]


def _end_with_parent() -> None:
    """Linux ends a process of the cluster if its holder is killed."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]


def _answers(started: list[subprocess.Popen[bytes]], page: str, workers: int) -> bool:
    """Wait until the master knows all its workers."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and all(process.poll() is None for process in started):
        with contextlib.suppress(OSError, ValueError):
            if _status(page)["aliveworkers"] == workers:
                return True
        time.sleep(0.1)
    return False


def _end(started: list[subprocess.Popen[bytes]]) -> None:
    """Workers first: each ends its executors."""
    for process in reversed(started):
        process.terminate()
    for process in reversed(started):
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            for child in (*below(process.pid), process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            process.wait()


# ---------------------------------------------------------------------- the command line


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="A Spark standalone cluster on this machine.")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--hold", action="store_true", help=argparse.SUPPRESS)
    told = parser.parse_args(arguments)
    if told.hold:
        _hold(told.workers)
        return 0
    try:
        with Cluster(told.workers) as cluster, contextlib.suppress(KeyboardInterrupt):
            sys.stdout.write(cluster.master + "\n")
            sys.stdout.flush()
            signal.pause()
    except Unavailable as reason:
        sys.stderr.write(f"{reason}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
