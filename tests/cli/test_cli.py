"""The command line from outside: exit statuses, what goes where, and the first line of errors."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from tests import needed

ROOT = Path(__file__).parents[2]

SCRIPT = """
CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0;
CREATE STREAM b (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0;
CREATE QUERY pairs AS SELECT a.x FROM a [RANGE 10], b [RANGE 10] WHERE a.x = b.x;
"""


def call(*arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "queries.sql"
    path.write_text(SCRIPT)
    return path


def test_help_lists_what_works_and_only_that() -> None:
    done = call("--help")
    assert done.returncode == 0
    commands = [line.split()[0] for line in done.stdout.split("Commands:")[1].splitlines() if line.strip()]
    assert commands[:6] == ["run", "dry-run", "explain", "demo", "warm", "java"]


def test_the_command_and_the_module_are_one_program() -> None:
    installed = Path(sys.executable).with_name("penstock")
    done = subprocess.run([installed, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == call("--version").stdout


@pytest.mark.parametrize(
    ("arguments", "first_line"),
    [
        ((), "error: Missing command."),
        (("nope",), "error: No such command 'nope'."),
        (("run",), "error: Missing argument 'script'."),
    ],
)
def test_bad_usage_is_two_and_says_so_in_its_first_line(arguments: tuple[str, ...], first_line: str) -> None:
    done = call(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines()[0].startswith(first_line)


def test_a_checkpoint_is_for_spark(script: Path, tmp_path: Path) -> None:
    done = call("run", script, "--checkpoint", str(tmp_path))
    assert done.returncode == 2
    assert "--checkpoint is for runs on Spark" in done.stderr


def test_run_on_spark_prints_the_same_changes(script: Path, tmp_path: Path) -> None:
    needed.java()
    (tmp_path / "a.csv").write_text("ts,x\n1,7\n3,8\n")
    (tmp_path / "b.jsonl").write_text('{"ts": 2, "x": 7}\n{"ts": 4, "x": 9}\n')
    files = ["-i", f"a={tmp_path / 'a.csv'}", "-i", f"b={tmp_path / 'b.jsonl'}"]
    here = call("run", script, *files)
    there = call("run", script, *files, "--spark", "local[2]", "--checkpoint", str(tmp_path / "checkpoint"))
    assert there.returncode == 0, there.stderr
    assert sorted(there.stdout.splitlines()) == sorted(here.stdout.splitlines())


def test_run_reads_files_and_prints_changes_as_json_lines(script: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ts,x\n1,7\n3,8\n")
    (tmp_path / "b.jsonl").write_text('{"ts": 2, "x": 7}\n{"ts": 4, "x": 9}\n')
    done = call("run", script, "-i", f"a={tmp_path / 'a.csv'}", "-i", f"b={tmp_path / 'b.jsonl'}")
    assert (done.returncode, done.stderr) == (0, "")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"__query": "pairs", "__op": "+", "__ts": 2, "__exp": 11, "x": 7}
    ]


def test_run_reads_parquet(script: Path, tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"x": [7], "ts": [1]}), tmp_path / "rows.parquet")
    file = tmp_path / "rows.parquet"
    done = call("run", script, "-i", f"a={file}", "-i", f"b={file}")
    assert json.loads(done.stdout)["x"] == 7


@pytest.mark.parametrize("kind", ["TABLE", "RETROACTIVE TABLE"])
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_run_fills_tables_from_files_before_the_first_row(tmp_path: Path, kind: str, ending: str) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    script = tmp_path / "queries.sql"
    script.write_text(
        f"CREATE {kind} Names (x INT, name STRING);"
        "CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0;"
        "CREATE QUERY named AS SELECT a.ts, names.name FROM a [RANGE 10], names WHERE a.x = names.x;"
    )
    names = tmp_path / f"names.{ending}"
    if ending == "parquet":
        parquet.write_table(pa.table({"x": [7, 8], "name": ["seven", None]}), names)
    else:
        text = {"csv": "x,name\n7,seven\n8,\n", "jsonl": '{"x": 7, "name": "seven"}\n{"x": 8}\n'}
        names.write_text(text[ending])
    rows = '{"ts": -5, "x": 7}\n{"ts": 1, "x": 8}\n{"ts": 2, "x": 9}\n'
    done = call("run", script, "-i", f"names={names}", stdin=rows)
    assert (done.returncode, done.stderr) == (0, "")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"__query": "named", "__op": "+", "__ts": -5, "__exp": 5, "ts": -5, "name": "seven"},
        {"__query": "named", "__op": "+", "__ts": 1, "__exp": 11, "ts": 1, "name": None},
    ]


def test_a_table_without_a_file_is_empty_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "queries.sql"
    script.write_text(
        "CREATE TABLE names (x INT, name STRING);"
        "CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0;"
        "CREATE QUERY named AS SELECT a.x FROM a [RANGE 10], names WHERE a.x = names.x;"
    )
    done = call("run", script, stdin='{"ts": 1, "x": 8}\n')
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"x": 1, "nom": "un"}\n')
    for option, first_line in {
        f"names={wrong}": f"error: {wrong}: table names has no column nom",
        f"nomes={wrong}": (
            f"error: --input 'nomes={wrong}' names no stream or table; those of the script: a, names"
        ),
        f"names={tmp_path / 'no.csv'}": f"error: {tmp_path / 'no.csv'}: No such file or directory",
    }.items():
        done = call("run", script, "-i", option)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.splitlines()[0] == first_line


def test_run_reads_several_streams_from_standard_input(script: Path) -> None:
    rows = '{"stream": "a", "ts": 1, "x": 7}\n{"stream": "b", "ts": 1, "x": 7}\n'
    done = call("run", script, stdin=rows)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["__ts"] == 1


@pytest.mark.parametrize(
    ("rows", "first_line"),
    [
        ('{"ts": 1, "x": 7}', "error: standard input, line 1: which stream?"),
        ("{ts", "error: standard input, line 1: not JSON"),
        ('{"stream": "a", "ts": 1, "z": 7}', "error: standard input, up to line 1: stream a has no column z"),
        ('{"stream": "a", "ts": "x", "x": 7}', "error: standard input, up to line 1: column ts BIGINT"),
    ],
)
def test_wrong_rows_are_one_and_name_the_line(script: Path, rows: str, first_line: str) -> None:
    done = call("run", script, stdin=rows)
    assert done.returncode == 1
    assert done.stderr.splitlines()[0].startswith(first_line)


def test_a_file_that_is_not_there_is_one_whichever_it_is(script: Path, tmp_path: Path) -> None:
    rows = tmp_path / "a.csv"
    rows.write_text("ts,x\n1,7\n")
    for name in ("nosuch.sql", "nosuch.csv", "nosuch.parquet", "nosuch.jsonl"):
        missing = tmp_path / name
        if missing.suffix == ".sql":
            calls = [call(command, missing) for command in ("run", "dry-run", "explain")]
        else:
            calls = [call("run", script, "-i", f"a={rows}", "-i", f"b={missing}")]
        for done in calls:
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr == f"error: {missing}: No such file or directory\n"


def test_a_directory_is_not_a_file(script: Path, tmp_path: Path) -> None:
    folder = tmp_path / "rows.csv"
    folder.mkdir()
    for done in (call("run", folder), call("run", script, "-i", f"a={folder}")):
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"error: {folder}: Is a directory\n"


def test_run_needs_a_query(tmp_path: Path) -> None:
    path = tmp_path / "empty.sql"
    path.write_text("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0;")
    done = call("run", path)
    assert done.returncode == 1
    assert "no CREATE QUERY" in done.stderr


def test_dry_run_names_the_pattern_of_every_query(script: Path) -> None:
    done = call("dry-run", script)
    assert (done.returncode, done.stdout) == (0, "pairs: WEAK\nok: 2 streams, 0 tables, 1 queries\n")


def test_dry_run_shows_the_place_of_an_error(tmp_path: Path) -> None:
    path = tmp_path / "wrong.sql"
    path.write_text(SCRIPT + "CREATE QUERY q AS SELECT nope FROM a [RANGE 10];\n")
    done = call("dry-run", path)
    assert (done.returncode, done.stdout) == (1, "")
    first, line, caret = done.stderr.splitlines()
    assert first.startswith(f"error: {path}: line 5, column 26: ")
    assert line[caret.index("^") :].startswith("nope")


def test_explain_speaks_text_json_and_dot(script: Path) -> None:
    assert "WEAK" in call("explain", script, "--query", "pairs").stdout
    tree = json.loads(call("explain", script, "--format", "json").stdout)["pairs"]
    assert tree["pattern"] == "WEAK"
    assert tree["reason"]
    assert call("explain", script, "--format", "dot").stdout.startswith("digraph penstock {")
    assert call("explain", script, "--query", "nope").returncode == 1


def test_the_example_script_runs() -> None:
    files = ["-i", "orders=examples/orders.csv", "-i", "returns=examples/returns.jsonl"]
    command = [sys.executable, "-m", "penstock", "run", "examples/orders.sql", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    kept = [json.loads(line) for line in done.stdout.splitlines() if '"kept"' in line]
    assert [(c["__op"], c["__ts"], c["item"]) for c in kept] == [
        ("+", 1, "cup"),
        ("+", 5, "pot"),
        ("-", 8, "cup"),
    ]


@pytest.mark.slow
def test_the_demo_ends_by_itself_with_every_answer_right() -> None:
    needed.java()
    done = call("demo")
    assert done.returncode == 0, done.stderr
    for noise in ("Traceback", "ERROR", "WARN", "log4j"):
        assert noise not in done.stderr
    assert "every answer equal to a recomputation" in done.stdout


def test_explain_draws() -> None:
    """The picture in the documents is what the command draws; its boxes are the plan's operators."""
    script = ROOT / "examples" / "links.sql"
    drawn = call("explain", script, "--format", "svg").stdout
    assert drawn == (ROOT / "docs" / "images" / "only_here.svg").read_text(encoding="utf-8")
    tree = json.loads(call("explain", script, "--format", "json").stdout)["only_here"]

    def nodes(one: dict[str, Any]) -> int:
        return 1 + sum(map(nodes, one["inputs"]))

    picture = ET.fromstring(drawn)  # drawn here
    boxes = picture.findall("{*}rect")
    assert len(boxes) == nodes(tree) + 1
    spans = sorted((float(b.get("y", 0)), float(b.get("x", 0)), float(b.get("width", 0))) for b in boxes)
    for (y, x, width), (next_y, next_x, _) in pairwise(spans):
        assert y != next_y or x + width <= next_x, "boxes of one level do not overlap"
