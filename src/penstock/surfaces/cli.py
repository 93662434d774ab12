"""The command line. Commands live in `commands/`, one file each, imported when they are called; other packages add theirs as
plug-ins (`plugins.py`).

Exit status: 0 done, 1 the input is wrong (also a file that is not there) or a claim does not hold, 2 bad usage.
Errors go to standard error, one line first.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from penstock.errors import PenstockError
from penstock.surfaces.plugins import CommandUnavailable, PluginGroup

app = typer.Typer(
    name="penstock",
    cls=PluginGroup,
    help="Standing SQL queries over streams.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_USAGE_ERROR = typer.BadParameter.__base__
"""Click's UsageError, wherever this version of typer keeps it."""

Script = Annotated[Path, typer.Argument(help="A file of SQL statements.")]


class ChangesFormat(StrEnum):
    """How `run` prints changes."""

    jsonl = "jsonl"
    table = "table"


class ExplainFormat(StrEnum):
    """How `explain` prints plans."""

    text = "text"
    json = "json"
    dot = "dot"
    svg = "svg"


class BenchName(StrEnum):
    """The benchmarks there are."""

    window_join = "window-join"
    three_way = "three-way"
    distinct_except = "distinct-except"
    sliding_aggregate = "sliding-aggregate"
    standing_queries = "standing-queries"
    overload = "overload"
    criteria = "criteria"
    promises = "promises"
    spark_join = "spark-join"
    spark_queries = "spark-queries"
    spark_ranks = "spark-ranks"


class Probing(StrEnum):
    """How trees of joins search their states."""

    by_index = "index"
    by_search = "nested"


class ClockName(StrEnum):
    """By which clock budgets of figures go."""

    virtual = "virtual"
    wall = "wall"


class FigureName(StrEnum):
    """The figures there are, and all of them."""

    upa_9 = "upa-9"
    upa_10 = "upa-10"
    upa_11 = "upa-11"
    upa_12 = "upa-12"
    upa_13 = "upa-13"
    upa_14 = "upa-14"
    upa_15 = "upa-15"
    upa_16 = "upa-16"
    upa_17 = "upa-17"
    cacq_lineage = "cacq-lineage"
    cacq_queries = "cacq-queries"
    cacq_sources = "cacq-sources"
    cacq_routing = "cacq-routing"
    cacq_tickets_1 = "cacq-tickets-1"
    cacq_tickets_2 = "cacq-tickets-2"
    cacq_tickets_3 = "cacq-tickets-3"
    cacq_niagara = "cacq-niagara"
    cacq_udf = "cacq-udf"
    jit_10 = "jit-10"
    jit_11 = "jit-11"
    jit_12 = "jit-12"
    jit_13 = "jit-13"
    jit_14 = "jit-14"
    jit_15 = "jit-15"
    jit_16 = "jit-16"
    jit_17 = "jit-17"
    jit_eight = "jit-eight"
    jit_fruitful = "jit-fruitful"
    pp_4_5 = "pp-4.5"
    pp_4_6 = "pp-4.6"
    pp_4_7 = "pp-4.7"
    pp_4_8 = "pp-4.8"
    pp_4_9 = "pp-4.9"
    pp_4_10 = "pp-4.10"
    pp_costly = "pp-costly"
    tpag_5_4 = "tpag-5.4"
    tpag_5_5 = "tpag-5.5"
    tpag_5_6 = "tpag-5.6"
    tpag_5_7 = "tpag-5.7"
    tpag_5_8 = "tpag-5.8"
    tpag_5_9 = "tpag-5.9"
    tpag_population = "tpag-population"
    pr_6_4 = "pr-6.4"
    pr_6_5 = "pr-6.5"
    pr_6_6 = "pr-6.6"
    pr_6_7 = "pr-6.7"
    pr_6_8 = "pr-6.8"
    pr_6_9 = "pr-6.9"
    pr_6_10 = "pr-6.10"
    prj_7_4 = "prj-7.4"
    prj_7_5 = "prj-7.5"
    prj_7_6 = "prj-7.6"
    prj_7_7 = "prj-7.7"
    prj_7_8 = "prj-7.8"
    prj_7_9 = "prj-7.9"
    all = "all"


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"penstock {version('penstock')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Standing SQL queries over streams."""


@app.command()
def run(
    script: Script,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            metavar="NAME=FILE",
            help="Rows of a stream or table: .csv (with a header), .parquet or .jsonl. "
            "Streams without one come from standard input as JSON lines; tables are filled first.",
        ),
    ] = None,
    output: Annotated[
        ChangesFormat | None,
        typer.Option("--format", help="How changes are printed; a table on a terminal, else JSON lines."),
    ] = None,
    spark: Annotated[
        str | None, typer.Option(metavar="MASTER", help="Run on Spark, e.g. 'local[*]'; until stopped.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="DIR", help="On Spark: where state survives; the same one goes on.")
    ] = None,
) -> None:
    """Run every CREATE QUERY of a script over its streams and print the changes."""
    if checkpoint is not None and spark is None:
        raise typer.BadParameter("--checkpoint is for runs on Spark; give --spark too")
    if spark is not None:
        from penstock.surfaces.commands import run_on_spark

        run_on_spark.run(script, inputs or [], spark, checkpoint)
        return
    from penstock.surfaces.commands import run as command

    command.run(script, inputs or [], None if output is None else output.value)


@app.command("dry-run")
def dry_run(script: Script) -> None:
    """Parse, bind and plan a script without running it."""
    from penstock.surfaces.commands import plans

    plans.dry_run(script)


@app.command()
def explain(
    script: Script,
    query: Annotated[str | None, typer.Option(help="Only this query; otherwise the whole flow.")] = None,
    output: Annotated[ExplainFormat, typer.Option("--format", help="What to print.")] = ExplainFormat.text,
) -> None:
    """Show the plans of a script's queries: every edge with its update pattern and why."""
    from penstock.surfaces.commands import plans

    plans.explain(script, query, output.value)


@app.command()
def demo(
    spark: Annotated[
        str | None,
        typer.Option(
            metavar="MASTER", help="Which Spark, e.g. 'spark://host:7077'; otherwise one made here."
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Where its checkpoint is while it runs; on a cluster all machines must see it.",
        ),
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="Embedded, in this process: needs neither Spark nor Java.")
    ] = False,
) -> None:
    """Watch two network links with standing queries, on data made here; ends by itself."""
    if local and (spark is not None or checkpoint is not None):
        raise typer.BadParameter("--local runs without Spark: leave out --spark and --checkpoint")
    from penstock.surfaces.commands import demo as command

    raise typer.Exit(command.demo(spark, checkpoint, local=local))


@app.command()
def warm() -> None:
    """Compile all kernels now, once for this machine (about two minutes); programs then start at once."""
    from penstock.surfaces.commands import warm as command

    command.warm()


@app.command()
def java() -> None:
    """Say which Java runtime Spark uses, as settings for a shell: eval "$(penstock java)"."""
    import shlex

    from penstock.runtime.spark.java import use_java

    found = use_java()
    typer.echo(f"# Java {found.version}: {found.executable}")
    for name, value in found.environment.items():
        typer.echo(f"export {name}={shlex.quote(value)}")


@app.command()
def bench(
    name: Annotated[BenchName, typer.Argument(help="Which benchmark.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A quarter of the data and fewer repetitions.")
    ] = False,
    datafusion: Annotated[bool, typer.Option(help="Compare with DataFusion too, if it is installed.")] = True,
) -> None:
    """Measure the engine against hand-written programs and other engines, all in one run."""
    from penstock.surfaces.commands import bench as command

    raise typer.Exit(command.bench(name.value, as_json=as_json, quick=quick, datafusion=datafusion))


@app.command()
def figure(
    name: Annotated[FigureName, typer.Argument(help="Which figure, or all.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer windows or queries, and fewer repetitions.")
    ] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where NAME.csv and NAME.png are written.")] = Path(
        "figures"
    ),
    probing: Annotated[
        Probing, typer.Option(help="jit-*: look partners up, or search for them as the paper does.")
    ] = Probing.by_index,
    clock: Annotated[
        ClockName,
        typer.Option(
            help="pp-*, tpag-*: budgets are units, and runs repeat themselves; or they are real time."
        ),
    ] = ClockName.virtual,
) -> None:
    """Reproduce a paper's figure: CSV, PNG and a verdict, one JSON object as the last line."""
    from penstock.surfaces.commands import figure as command

    raise typer.Exit(
        command.figure(name.value, quick=quick, out=out, probing=probing.value, clock=clock.value)
    )


def main() -> None:
    """Run the command line and leave with its exit status."""
    try:
        status = app(standalone_mode=False)
    except PenstockError as error:
        status = _fail(str(error), 1)
    except CommandUnavailable as error:
        status = _fail(str(error), 2)
    except OSError as error:
        status = _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error), 1)
    except KeyboardInterrupt:
        status = 0
    except Exception as error:
        if isinstance(error, typer.Abort):
            status = _fail("aborted", 1)
        elif _USAGE_ERROR is not None and isinstance(error, _USAGE_ERROR):
            status = _usage(error)
        else:
            raise
    sys.exit(status or 0)


def _fail(message: str, status: int) -> int:
    typer.echo(f"error: {message}", err=True)
    return status


def _usage(error: Exception) -> int:
    """One line first, then how the command is called."""
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    _fail(message, 2)
    if context is not None:
        typer.echo(context.get_usage(), err=True)
    return 2
