"""Pushes that are interrupted at any point: repeated, they give exact answers, or the session refuses to go on."""

from __future__ import annotations

import dis
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import penstock

SOURCE = str(Path(penstock.__file__).parent)
POLLING = ("RESUME", "CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD")
KINDS = (KeyboardInterrupt, MemoryError)
OLD = [{"ts": t, "x": t % 4, "s": f"k{t % 5}"} for t in range(20)]
NEW = [{"ts": t, "x": t % 4, "s": f"n{t % 90}"} for t in range(15, 260)]
NEW[100]["ts"] = 1  # late
QUERIES = {
    "groups": "SELECT s, COUNT(*) AS n FROM a [RANGE 50] GROUP BY s",
    "filter": "SELECT x, s FROM a [RANGE 50] WHERE x > 1",
    "distinct": "SELECT DISTINCT x FROM a [RANGE 50]",
}


class Case:
    """A session that has had some rows."""

    def __init__(self, *, steps: bool) -> None:
        self.session = penstock.connect()
        self.session.execute("CREATE STREAM a (ts BIGINT, x INT, s STRING) WATERMARK ts DELAY OF INTERVAL 3")
        if steps:  # with a Python function every push is applied at once
            self.session.create_function("same", lambda x: x, returns="INT")
        self.queries = [self.session.query(sql) for sql in QUERIES.values()]
        self.session.push("a", OLD)

    def push(self, rows: object) -> None:
        self.session.push("a", rows)

    def answers(self) -> list[Any]:
        self.session.advance(1000)
        told = [sorted(map(repr, query.changes().to_pylist())) for query in self.queries]
        return [*told, self.session.late("a").to_pylist()]


def interrupted(work: Callable[[], object], at: int, kind: type[BaseException], event: str) -> bool:
    """Whether the work came as far as its `at`-th line, or its `at`-th bytecode instruction in the package after one at which
    CPython looks for signals, and was interrupted there."""
    seen = 0
    before: dict[FrameType, str] = {}

    def entered(frame: FrameType, _: str, __: object) -> Any:
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None
        frame.f_trace_opcodes = event == "opcode"
        return inside

    def inside(frame: FrameType, what: str, _: object) -> Any:
        nonlocal seen
        previous = before.get(frame, "")
        before[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        if what == event and (what == "line" or previous in POLLING):
            seen += 1
            if seen == at:
                sys.settrace(None)
                raise kind
        return inside

    sys.settrace(entered)
    try:
        work()
    except kind:
        return True
    finally:
        sys.settrace(None)
    return False


def outcome(case: Case, rows: object, expected: list[Any]) -> str:
    """After an interrupted push: the same rows again."""
    try:
        case.push(rows)
        got = case.answers()
    except penstock.StateError:
        return "refused"
    assert got == expected
    return "exact"


def expected(*, steps: bool) -> list[Any]:
    case = Case(steps=steps)
    case.push(NEW)
    return case.answers()


def points(step: int) -> Iterator[tuple[int, type[BaseException]]]:
    for number in range(1, 1_000_000):
        yield 1 + (number - 1) * step, KINDS[number % 2]


@pytest.mark.parametrize("form", ["list", "table", "batch"])
@pytest.mark.parametrize(("event", "every"), [("line", 11), ("opcode", 7)])
def test_a_push_interrupted_before_its_step_can_be_repeated(form: str, event: str, every: int) -> None:
    right = expected(steps=False)
    table = pa.Table.from_pylist(NEW)
    schema = pa.schema([("ts", pa.int64()), ("x", pa.int32()), ("s", pa.string())])
    rows = {"list": NEW, "table": table, "batch": table.cast(schema).to_batches()[0]}[form]
    tried = 0
    for at, kind in points(every):
        case = Case(steps=False)
        if not interrupted(lambda case=case: case.push(rows), at, kind, event):
            break
        assert outcome(case, rows, right) == "exact", (at, kind)
        tried += 1
    assert tried > 10


def test_a_push_interrupted_in_its_step_is_exact_or_refused() -> None:
    right = expected(steps=True)
    outcomes = []
    for at, kind in points(31):
        case = Case(steps=True)
        try:
            if not interrupted(lambda case=case: case.push(NEW), at, kind, "line"):
                break
        except penstock.StateError as error:  # no memory for one query: it stops, and the push says so
            outcomes.append("stopped" if "MemoryError" in str(error) else str(error))
            continue
        outcomes.append(outcome(case, NEW, right))
    assert {"exact", "refused", "stopped"} == set(outcomes)


def test_small_arrow_pushes_are_taken_back_too() -> None:
    """Numbers in time order wait undecoded: another way in."""

    def connected() -> tuple[penstock.Session, penstock.Query]:
        session = penstock.connect()
        session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
        return session, session.query("SELECT x FROM a [RANGE 5]")

    schema = pa.schema([("ts", pa.int64()), ("x", pa.int32())])
    rows = pa.RecordBatch.from_pydict({"ts": list(range(9)), "x": list(range(9))}, schema=schema)
    tried = 0
    for at, kind in points(1):
        session, query = connected()
        if not interrupted(lambda session=session: session.push("a", rows), at, kind, "opcode"):
            break
        session.push("a", rows)
        assert session.clock == 7
        assert query.changes().column("x").to_pylist() == list(range(8))
        assert session.late("a").num_rows == 0
        tried += 1
    assert tried > 10


def test_fifty_pushes_torn_by_signals() -> None:
    """A timer interrupts at random instructions; the same rows are pushed until a push returns."""

    def interrupt(_: int, __: object) -> None:
        raise KeyboardInterrupt

    drawn = random.Random(4)
    rows = [{"ts": t // 40, "x": t % 4, "s": f"n{t % 3000}"} for t in range(8_000)]
    whole, began = Case(steps=False), time.perf_counter()
    whole.push(rows)
    took = time.perf_counter() - began
    right = whole.answers()
    torn = 0
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(2_000):
            case, returned = Case(steps=False), False
            try:
                signal.setitimer(signal.ITIMER_REAL, drawn.uniform(1e-5, 0.8 * took))
                case.push(rows)
                returned = True
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                if not returned:
                    torn += 1
                    assert outcome(case, rows, right) in ("exact", "refused")
            if torn == 50:
                break
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert torn == 50


def test_an_interrupted_read_is_not_continued() -> None:
    right, outcomes = expected(steps=False), set()
    for at, _ in points(61):
        case = Case(steps=False)
        case.push(NEW)
        read = case.queries[1].snapshot
        if not interrupted(read, at, KeyboardInterrupt, "line"):
            break
        try:
            got = case.answers()
        except penstock.StateError:
            outcomes.add("refused")
        else:
            assert got == right, at
            outcomes.add("exact")
    assert "refused" in outcomes
