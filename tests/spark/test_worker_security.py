"""No other user of the machine gets between a task and the worker process of its cell."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import StateError
from penstock.spark import worker_process
from penstock.spark.private_folder import local_base
from penstock.spark.worker_link import Run, greet_worker, peer, wire_of
from tests.spark.test_partition import NUMBER, Driver
from tests.spark.test_sessions import drawn

OTHER = 65534
"""The user that squats."""
ME = f"penstock-{os.geteuid()}"


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory like /tmp, which Spark names as its local one."""
    base = Path(tempfile.mkdtemp(prefix="penstock-shared-"))
    base.chmod(0o1777)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(base))
    monkeypatch.setattr(worker_process, "_keeper", os.getpid)
    monkeypatch.setattr(worker_process, "PATIENCE", 20.0)
    yield base
    shutil.rmtree(base)


def as_other(script: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A Python script run by another user, in whichever interpreter he may run."""
    if os.geteuid() != 0:
        pytest.skip("to run a process as another user, tests must run as root")
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        try:
            return subprocess.Popen(
                [python, "-c", script, *arguments],
                user=OTHER, group=OTHER, extra_groups=[], stdout=subprocess.PIPE,
            )  # fmt: skip
        except OSError:
            continue
    pytest.skip("no Python interpreter that another user may run")


LISTEN = """
import os, socket, sys
os.makedirs(os.path.dirname(sys.argv[1]), exist_ok=True)
door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
door.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
door.listen()
print("ready", flush=True)
link, _ = door.accept()
link.sendall(bytes(32))
got = b""
while part := link.recv(1 << 20):
    got += part
print(len(got), flush=True)
"""


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    made = Driver(tmp_path / "checkpoint")
    yield made
    shutil.rmtree(tmp_path / "checkpoint" / "hosts", ignore_errors=True)  # worker processes leave


def deliver(driver: Driver, run: Run, begin: int = 0) -> dict[str, object]:
    """A step of twenty rows to cell 0."""
    rows = {name: part[begin : begin + 20] for name, part in drawn(1, 90).items()}
    mark = worker_process.mark_of(driver.store.root, run.name)
    mark.parent.mkdir(exist_ok=True)
    mark.touch()
    header, table = driver.header(flush=False), driver.routed(rows)[0]
    return worker_process.deliver(run, str(driver.store.root), 0, NUMBER, header, table.to_batches(), b"")[0]


# ---------------------------------------------------------------------- the directory


def test_a_squatted_directory_is_refused_and_the_squatter_gets_nothing(shared: Path, driver: Driver) -> None:
    run = Run(timeout=5)
    place = shared / ME / run.name / "0.sock"
    with as_other(LISTEN, str(place)) as squatter:
        assert squatter.stdout is not None
        assert squatter.stdout.readline() == b"ready\n"
        for folder in (place.parent, place.parent.parent):
            folder.chmod(0o777)
        with pytest.raises(StateError, match=f"belongs to user {OTHER}"):
            deliver(driver, run)
        squatter.terminate()
        assert squatter.stdout.read() == b""


@pytest.mark.parametrize("mode", [0o770, 0o750, 0o707, 0o711])
def test_a_directory_that_others_can_enter_is_refused(mode: int, shared: Path, driver: Driver) -> None:
    (shared / ME).mkdir()
    (shared / ME).chmod(mode)
    with pytest.raises(StateError, match=f"{mode:04o}") as refused:
        deliver(driver, Run())
    assert refused.value.hint is not None
    assert "spark.local.dir" in refused.value.hint


def test_a_link_in_place_of_the_directory_is_refused(shared: Path, driver: Driver, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (shared / ME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError, match="cannot be entered"):
        deliver(driver, Run())
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("kind", ["log", "lock"])
@pytest.mark.parametrize("hard", [False, True])
def test_a_link_in_place_of_a_file_changes_nothing(
    kind: str, hard: bool, shared: Path, tmp_path: Path, driver: Driver
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    run = Run()
    with worker_process.folder_of(shared, run.name) as folder:
        place = folder.path / f"0.{kind}"
        place.hardlink_to(victim) if hard else place.symlink_to(victim)
        for flags in (os.O_WRONLY | os.O_APPEND, os.O_RDWR):
            with pytest.raises(StateError, match=f"0.{kind}"):
                folder.open(f"0.{kind}", flags)
    if kind == "log":
        with pytest.raises(StateError, match=r"0\.log"):
            deliver(driver, run)
    assert victim.read_text() == "precious"


def test_a_path_too_long_for_a_socket(shared: Path, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's local directories on clusters are longer than the 107 bytes a socket's address may have."""
    deep = shared / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"/nowhere,{deep}")
    assert local_base() == deep
    assert deliver(driver, Run())["step"] == 1
    assert [p.name for p in shared.iterdir()] == ["d" * 60]


# ---------------------------------------------------------------------- who is at the other end


def test_a_socket_of_another_user_is_refused(shared: Path) -> None:
    place = shared / "other.sock"
    with as_other(LISTEN, str(place)) as listener:
        assert listener.stdout is not None
        assert listener.stdout.readline() == b"ready\n"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.connect(str(place))
            with pytest.raises(StateError, match=f"belongs to user {OTHER}"):
                peer(link)
            link.shutdown(socket.SHUT_WR)
            assert listener.stdout.readline() == b"0\n"


def test_a_task_of_another_user_is_refused(shared: Path) -> None:
    place = shared / "ours.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.bind(str(place))
        place.chmod(0o777)
        door.listen()
        connect = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({str(place)!r}); s.recv(1)"
        with as_other(connect) as task:
            link, _ = door.accept()
            with link, pytest.raises(StateError, match=f"belongs to user {OTHER}"):
                peer(link)
            task.kill()


def test_a_worker_that_does_not_know_the_secret_gets_nothing(shared: Path, driver: Driver) -> None:
    """A process of the same user, as another program of his may be."""
    run, got = Run(timeout=5), []
    with worker_process.folder_of(shared, run.name) as folder, socket.socket(socket.AF_UNIX) as door:
        door.bind(folder.address("0.sock"))
        door.listen()

        def impostor() -> None:
            link, _ = door.accept()
            with link:
                link.sendall(bytes(32))
                got.append(link.recv(1 << 20))
                link.sendall(bytes(32))
                got.append(link.recv(1 << 20))

        thread = threading.Thread(target=impostor)
        thread.start()
        with pytest.raises(StateError, match="does not know this run's secret"):
            deliver(driver, run)
        thread.join(20)
    assert [len(part) for part in got] == [64, 0]
    assert run.secret not in got[0]


def test_a_task_that_does_not_know_the_secret_is_not_served(shared: Path, driver: Driver) -> None:
    run = Run(timeout=20)
    assert deliver(driver, run)["step"] == 1
    with worker_process.folder_of(shared, run.name) as folder:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.connect(folder.address("0.sock"))
            with wire_of(link) as wire, pytest.raises(EOFError):
                greet_worker(wire, b"guessed")
        until = time.monotonic() + 20
        while "does not know" not in (told := (folder.path / "0.log").read_text()):
            assert time.monotonic() < until, told
            time.sleep(0.05)


def test_the_secret_shows_nowhere(shared: Path, driver: Driver) -> None:
    run = Run()
    assert deliver(driver, run)["step"] == 1
    with worker_process.folder_of(shared, run.name) as folder:
        process = int((folder.path / "0.lock").read_text())
        for entry in folder.path.iterdir():
            assert stat.S_IMODE(entry.stat().st_mode) & 0o077 == 0, entry
    for what in ("cmdline", "environ"):
        content = Path(f"/proc/{process}/{what}").read_bytes()
        assert run.secret not in content
        assert run.secret.hex().encode() not in content
    assert repr(run).count("secret") == 0


def test_tasks_use_sparks_local_directory() -> None:
    """What Spark names to its Python workers; without Spark the temporary directory, checked as well."""
    ask = "from penstock.spark.private_folder import local_base; print(local_base())"
    environment = {k: v for k, v in os.environ.items() if k != "SPARK_LOCAL_DIRS"} | {"TMPDIR": "/var/tmp"}
    for more, expected in (({"SPARK_LOCAL_DIRS": "/tmp"}, "/tmp"), ({}, "/var/tmp")):
        told = subprocess.run(
            [sys.executable, "-c", ask], env=environment | more, capture_output=True, text=True, check=True
        )
        assert told.stdout.strip() == expected
