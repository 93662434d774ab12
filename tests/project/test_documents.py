"""What the documents say is true: the README's lines run, and files they name exist."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

import penstock
from penstock.plan.function_signatures import FUNCTIONS
from penstock_lab.cli import FigureName
from penstock_lab.figures.tp import city
from penstock_lab.figures.tp.feed import times

ROOT = Path(__file__).parents[2]
CODE = ("src/penstock", "lab/src/penstock_lab")
TESTS = ("tests", "lab/tests")


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def test_the_readme_runs_and_prints_what_it_says() -> None:
    code, _ = blocks(ROOT / "README.md", "python")  # the other needs Spark: tests/spark/test_sessions.py
    (output,) = blocks(ROOT / "README.md", "text")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert printed.getvalue() == output


def test_the_example_runs() -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec((ROOT / "examples/two_links.py").read_text(encoding="utf-8"), {})
    assert printed.getvalue().rstrip().endswith("[] 0")


def test_standing_queries_come_and_go() -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec((ROOT / "examples/standing_queries.py").read_text(encoding="utf-8"), {})
    lines = printed.getvalue().splitlines()
    assert lines[0].startswith("20,000 readings, 302 queries, ")
    assert [line.split(":")[0].strip() for line in lines[2:5]] == ["site", "heat", "sensor"]
    assert lines[-1] == "2 queries left"


def test_desks_share_a_join_and_forget_no_sensor() -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec((ROOT / "examples/control_room.py").read_text(encoding="utf-8"), {})
    fire, frost, watch = printed.getvalue().splitlines()
    assert fire.endswith("; 2 queries ride on one join") and frost.endswith("; 2 queries ride on one join")
    assert re.fullmatch(r"watch: 8 periods, \d{4} sensors in them, 0 missed", watch)


@pytest.mark.parametrize("name", ["home_arrest", "stock_market"])
def test_ranked_examples_tell_answers_of_every_rank_the_best_first(name: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec((ROOT / f"examples/{name}.py").read_text(encoding="utf-8"), {})
    lines = printed.getvalue()
    told = re.findall(r"^rank (.): ([\d,]+) answers, the first: \w", lines, re.MULTILINE)
    assert [rank for rank, _ in told] == ["1", "2", "3", "-"]
    counts = [int(count.replace(",", "")) for _, count in told]
    assert min(counts) > 0
    if name == "home_arrest":
        assert f"\n{sum(counts):,} answers\n" in lines
        found = re.search(r"prisonerid: (\d) times, ([\d,]+) seen, (\d+) missed\n$", lines)
        assert found is not None and [int(n) for n in found.groups()] == [6, to_be_seen(), 0]
    else:
        assert len(re.findall(r"^[A-Z][\w ]+: \d+\.\d\d$", lines, re.MULTILINE)) == 10


def to_be_seen() -> int:
    """Violent prisoners a mile or more from home, in every ten seconds."""
    made = city.make("5-10-15", seconds=60)
    home = {row["prisonerid"]: row for row in made.info[0][1].to_pylist()}
    rows = made.feed.streams["prisonerLocation"]
    objects = set()
    for at, row in zip(times(rows).tolist(), rows.to_pylist(), strict=True):
        own = home[row["prisonerid"]]
        far = (row["x"] - own["x"]) ** 2 + (row["y"] - own["y"]) ** 2 >= 1
        if far and own["committed_violent_offense"]:
            objects.add((at // 10_000_000, row["prisonerid"]))
    return len(objects)


def test_when_news_breaks_our_own_investments_go_first() -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec((ROOT / "examples/breaking_news.py").read_text(encoding="utf-8"), {})
    rows = re.findall(r"^rank (.): +([\d,]+) +([\d,]+) +([\d,]+)$", printed.getvalue(), re.MULTILINE)
    assert [rank for rank, *_ in rows] == ["1", "2", "3", "-"]
    every, fifo, prefer = ([int(row[at].replace(",", "")) for row in rows] for at in (1, 2, 3))
    assert fifo[0] < 0.1 * every[0]
    assert 2 * fifo[0] < prefer[0] <= every[0]
    assert prefer[3] < fifo[3] < every[3]


@pytest.mark.parametrize(
    "document",
    ["README.md", "lab/README.md", *(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))],
)
def test_links_and_named_files_exist(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    named = re.findall(r"`((?:src|lab|tests|docs|examples)/[\w/.*-]+)`", text)
    missing = [n for n in links if not ((ROOT / document).parent / n).exists()]
    missing += [n for n in named if not list(ROOT.glob(n.rstrip("/")))]
    assert missing == []


def test_every_statement_of_the_language_page_is_understood() -> None:
    session = penstock.connect()
    session.execute("""
        CREATE STREAM a (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF INTERVAL 0;
        CREATE STREAM b (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF INTERVAL 0;
    """)
    declarations, queries = blocks(ROOT / "docs/sql.md", "sql")
    penstock.connect().execute(declarations)
    for i, statement in enumerate(re.sub(r"--.*", "", queries).split(";")):
        if statement.strip():
            assert session.query(statement, name=f"q{i}").pattern


def test_the_language_page_lists_every_function() -> None:
    page = (ROOT / "docs/sql.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?:numbers|strings|times|NULLs) \| (.*) \|$", page, re.MULTILINE)
    listed = set(re.findall(r"[a-z_0-9]+", " ".join(rows)))
    syntax = {"and", "or", "not", "case", "cast", "in", "like", "neg"}
    named = {f for f in FUNCTIONS if f.isidentifier() and not f.startswith("is_")}
    assert listed == named - syntax


ROWS = {"J": 12, "U": 11, "C": 9, "T": 20, "S": 6}


def rows_of_papers() -> list[tuple[str, str, str, str]]:
    """Row, file, test and figure of every line of the tables."""
    text = (ROOT / "docs/references.md").read_text(encoding="utf-8")
    cells = [[c.strip() for c in line.strip("|\n ").split(" | ")] for line in text.splitlines()]
    return [(c[0], c[2], c[3], c[4]) for c in cells if len(c) == 5 and re.match(r"[JUCTS]\d", c[0])]


def test_every_row_of_the_papers_has_its_place() -> None:
    listed = {row for rows, *_ in rows_of_papers() for row in re.findall(r"[JUCTS]\d+", rows)}
    assert listed == {f"{letter}{n}" for letter, last in ROWS.items() for n in range(1, last + 1)}


def test_files_tests_and_figures_of_every_row_exist() -> None:
    figures = {name.value for name in FigureName}
    for row, files, tests, drawn in rows_of_papers():
        for column, folders in ((files, CODE), (tests, TESTS)):
            for name in re.findall(r"`([\w/.*]+\.(?:py|golden))", column):
                found = list(ROOT.glob(name)) or [p for f in folders for p in (ROOT / f).glob(f"**/{name}")]
                assert found, f"{row}: {name}"
        for file, test in re.findall(r"`([\w/]+\.py)::(\w+)`", tests):
            assert any(
                f"def {test}(" in p.read_text(encoding="utf-8")
                for folder in TESTS
                for p in (ROOT / folder).glob(f"**/{Path(file).name}")
            )
        assert files.count("`") >= 2 and tests.count("`") >= 2, row
        assert set(re.findall(r"\b(?:upa|cacq|jit|pp|tpag|pr|prj)-[\w.-]*\w", drawn)) <= figures, row


def test_every_figure_leads_to_the_code_that_draws_it() -> None:
    """From a name to the file in one step; and every link of the page leads somewhere."""
    text = (ROOT / "docs/references.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    assert len(links) > 100 and all((ROOT / "docs" / link).exists() for link in links)
    section = text.split("## Figures")[1]
    drawn: dict[str, str] = {}
    for names, link in re.findall(r"^\| .* \| (`.*`) \| \[.*\]\((.*)\) \|$", section, re.MULTILINE):
        code = (ROOT / "docs" / link).read_text(encoding="utf-8")
        for name in re.findall(r"`([^`]+)`", names):
            number = name.split("-")[1]
            ranges = re.findall(r"(\d+) to (\d+)", code)
            spoken = number.isdigit() and any(int(a) <= int(number) <= int(b) for a, b in ranges)
            assert spoken or re.search(rf"(?<![\w.]){re.escape(number)}(?!\w)", code), f"{link}: {name}"
            assert drawn.setdefault(name, link) == link
    assert set(drawn) == {name.value for name in FigureName} - {"all"}
