"""A Kafka broker of one node and Spark's Kafka connector, fetched from Maven Central; for tests and trials.

    python -m scripts.kafka jars     # the connector, as `spark-submit --jars` takes it
    python -m scripts.kafka start    # a broker on 127.0.0.1; prints its address
    python -m scripts.kafka stop

Needs Java 17 and Maven; run it with the Python that has PySpark.
"""
# ruff: noqa: INP001 - a script

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from scripts.maven import SCALA, Unavailable, cache, fetched, not_brought, pyspark

from penstock.errors import StateError
from penstock.spark.java import use_java

BROKER = "4.3.1"
CLUSTER = "cGVuc3RvY2stb25lLW5vZA"
PATIENCE = 60.0
"""Seconds a broker may take to start."""


# ---------------------------------------------------------------------- jars


def connector() -> list[Path]:
    """The jars that Spark's Kafka source and sink need and PySpark does not bring."""
    version = pyspark()
    spark = "org.apache.spark"
    choices = [
        [(spark, f"{name}-kafka-0-10_{SCALA}", v) for name, v in versions]
        for versions in (
            (("spark-sql", version), ("spark-token-provider", version)),
            # Central lags behind PyPI: this pair is the newest it had in November 2026, and works with Spark 4.3.0.
            (("spark-sql", "4.2.0"), ("spark-token-provider", "4.1.0-preview1")),
        )
    ]
    jars = fetched(f"kafka/connector-{version}", choices, (spark, "org.apache.hadoop", "org.scala-lang"))
    return not_brought(jars)


def broker() -> list[Path]:
    """The jars of a broker."""
    wanted = [("org.apache.kafka", f"kafka_{SCALA}", BROKER), ("org.slf4j", "slf4j-simple", "1.7.36")]
    return fetched(f"kafka/broker-{BROKER}", [wanted])


# ---------------------------------------------------------------------- a broker


class Broker:
    """A broker for as long as the block lasts, or this process lives."""

    servers: str
    """What `kafka.bootstrap.servers` takes."""

    def __enter__(self) -> Self:
        self._holder, self.servers = _hold_elsewhere(detached=False)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._holder.stdin is not None
        self._holder.stdin.close()
        self._holder.wait(60)


def _hold_elsewhere(*, detached: bool) -> tuple[subprocess.Popen[str], str]:
    """A process that holds a broker: until its input ends or, detached, until it is told to terminate."""
    broker()
    command = [sys.executable, "-m", "scripts.kafka", "hold", *(["detached"] if detached else [])]
    holder = subprocess.Popen(  # noqa: S603 - this script
        command,
        stdin=subprocess.DEVNULL if detached else subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
        cwd=Path(__file__).resolve().parents[1],
    )
    assert holder.stdout is not None
    with holder.stdout as told:
        answer = json.loads(told.readline() or '{"error": "the holder of the broker died"}')
    if "error" in answer:
        holder.wait(60)
        raise Unavailable(answer["error"])
    return holder, answer["servers"]


def _hold(*, detached: bool) -> None:
    """Run a broker on a folder of its own; say where it listens; end it when nobody needs it any more."""
    ended = False

    def end(*_: object) -> None:
        nonlocal ended
        ended = True

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="penstock-kafka-") as folder,
            _running(Path(folder)) as (java, where),
        ):
            sys.stdout.write(json.dumps({"servers": where}) + "\n")
            sys.stdout.flush()
            while not ended and java.poll() is None:
                if detached:
                    time.sleep(0.2)
                elif select.select([sys.stdin], [], [], 0.2)[0]:
                    ended = not os.read(sys.stdin.fileno(), 1)
    except Unavailable as reason:
        sys.stdout.write(json.dumps({"error": str(reason)}) + "\n")


@contextlib.contextmanager
def _running(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    try:
        java = use_java()
    except StateError as error:
        raise Unavailable(str(error)) from None
    command = [
        str(java.executable),
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        os.pathsep.join(map(str, broker())),
    ]
    log = folder / "log"
    for _ in range(3):  # a port found free may be taken by the time it is used
        port, other = _free_ports()
        settings = folder / "server.properties"
        shutil.rmtree(folder / "data", ignore_errors=True)
        settings.write_text(_settings(folder / "data", port, other))
        with log.open("wb") as out:
            main = [*command, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(settings)]
            subprocess.run(main, stdout=out, stderr=out, timeout=PATIENCE, check=False)  # noqa: S603
            process = subprocess.Popen(  # noqa: S603
                [*command, "kafka.Kafka", str(settings)],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, preexec_fn=_end_with_parent,  # noqa: PLW1509
            )  # fmt: skip
        try:
            if _answers(process, log, port):
                yield process, f"127.0.0.1:{port}"
                return
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    raise Unavailable(f"the broker does not start: {log.read_text(errors='replace')[-1000:]}")


def _end_with_parent() -> None:
    """Linux ends the broker if its holder is killed."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _settings(data: Path, port: int, other: int) -> str:
    return "\n".join(
        (
            "process.roles=broker,controller",
            "node.id=1",
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{other}",
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names=CONTROLLER",
            f"controller.quorum.voters=1@127.0.0.1:{other}",
            f"log.dirs={data}",
            "offsets.topic.num.partitions=1",
            "offsets.topic.replication.factor=1",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
            "",
        )
    )


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]


def _answers(process: subprocess.Popen[bytes], log: Path, port: int) -> bool:
    """Wait until the broker says that it has started and takes connections."""
    until = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < until:
        if b"Kafka Server started" in log.read_bytes():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
                return True
        time.sleep(0.1)
    return False


# ---------------------------------------------------------------------- the command line


def _note() -> Path:
    return cache() / "kafka" / "broker.json"


def _start() -> str:
    with contextlib.suppress(OSError, ValueError):
        known: dict[str, Any] = json.loads(_note().read_text())
        if _is_holder(known["pid"]):
            return str(known["servers"])
    holder, servers = _hold_elsewhere(detached=True)
    _note().write_text(json.dumps({"pid": holder.pid, "servers": servers}))
    return servers


def _stop() -> None:
    try:
        pid = int(json.loads(_note().read_text())["pid"])
    except (OSError, ValueError):
        return
    _note().unlink()
    if _is_holder(pid):
        os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + 30
        while _is_holder(pid) and time.monotonic() < until:
            time.sleep(0.1)


def _is_holder(pid: int) -> bool:
    """Whether the process is still ours: a number may have been given to another."""
    try:
        return b"scripts.kafka\0hold" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def main(arguments: Sequence[str]) -> int:
    try:
        match list(arguments):
            case ["jars"]:
                sys.stdout.write(",".join(map(str, connector())) + "\n")
            case ["start"]:
                sys.stdout.write(_start() + "\n")
            case ["stop"]:
                _stop()
            case ["hold", *how]:
                _hold(detached=how == ["detached"])
            case _:
                sys.stderr.write(__doc__ or "")
                return 2
    except Unavailable as reason:
        sys.stderr.write(f"{reason}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
