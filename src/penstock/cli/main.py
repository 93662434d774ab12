"""The command line. Each command is a module beside this one, imported when they are called; other packages add theirs as
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

from penstock.cli.plugins import CommandUnavailable, PluginGroup
from penstock.errors import PenstockError

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
        from penstock.cli import run_on_spark

        run_on_spark.run(script, inputs or [], spark, checkpoint)
        return
    from penstock.cli import run as command

    command.run(script, inputs or [], None if output is None else output.value)


@app.command("dry-run")
def dry_run(script: Script) -> None:
    """Parse, bind and plan a script without running it."""
    from penstock.cli import plans

    plans.dry_run(script)


@app.command()
def explain(
    script: Script,
    query: Annotated[str | None, typer.Option(help="Only this query; otherwise the whole flow.")] = None,
    output: Annotated[ExplainFormat, typer.Option("--format", help="What to print.")] = ExplainFormat.text,
) -> None:
    """Show the plans of a script's queries: every edge with its update pattern and why."""
    from penstock.cli import plans

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
    from penstock.cli import demo as command

    raise typer.Exit(command.demo(spark, checkpoint, local=local))


@app.command()
def warm() -> None:
    """Compile all kernels now, once for this machine (about two minutes); programs then start at once."""
    from penstock.cli import warm as command

    command.warm()


@app.command()
def java() -> None:
    """Say which Java runtime Spark uses, as settings for a shell: eval "$(penstock java)"."""
    import shlex

    from penstock.spark.java import use_java

    found = use_java()
    typer.echo(f"# Java {found.version}: {found.executable}")
    for name, value in found.environment.items():
        typer.echo(f"export {name}={shlex.quote(value)}")


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
