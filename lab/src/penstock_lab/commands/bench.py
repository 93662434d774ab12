"""`penstock bench`: a benchmark, its progress on standard error, its verdict on standard output."""

from __future__ import annotations

import importlib
import json
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

MODULES = {
    "criteria": "criteria",
    "overload": "overload",
    "promises": "promises",
    "spark-join": "spark.join",
    "spark-queries": "spark.queries",
    "spark-ranks": "spark.ranks",
    "standing-queries": "standing.run",
}
"""The module of each benchmark that is more than one query against its hand-written program."""


def bench(name: str, *, as_json: bool, quick: bool, datafusion: bool) -> int:
    """Run and report; 1 if the claim does not hold."""
    progress = Console(stderr=True)
    with progress.status(name) as status:
        tell = status.update if progress.is_terminal else progress.print
        if name in MODULES:
            module = importlib.import_module(f"penstock_lab.benchmarks.{MODULES[name]}")
            result = module.bench(quick=quick, tell=tell)
        else:
            from penstock_lab.benchmarks.report import bench as measure

            result = measure(name, quick=quick, datafusion=datafusion, tell=tell)
    _show(result)
    if as_json:
        typer.echo(json.dumps(result))
    return 0 if result["holds"] else 1


def _show(result: dict[str, Any]) -> None:
    console = Console()
    for case, numbers in result["measured"].items():
        table = Table("", "", title=case, show_header=False, title_justify="left")
        reference = result["reference"][case]
        for key, value in (*numbers.items(), *reference.items()):
            if key == "tried":
                for what, pace in value.items():
                    table.add_row(f"  {what}", f"{pace:,}")
            elif isinstance(value, dict) and key != "points":
                for what, held in value.items():
                    said = (
                        ", ".join(f"{k} {v}" for k, v in held.items())
                        if isinstance(held, dict)
                        else str(held)
                    )
                    table.add_row(f"{key}, {what}", said)
            elif key != "points":
                table.add_row(key.replace("_", " "), f"{value:,}" if isinstance(value, int) else str(value))
        for key, point in numbers.get("points", {}).items():
            mark = "" if point["holds"] else "  ✗"
            table.add_row(key, f"{point['value']:.3g} {point['unit']} (limit {point['limit']:g}){mark}")
        console.print(table)
    for reason in result["why_not"]:
        console.print(f"✗ {reason}")
    console.print("holds" if result["holds"] else "does not hold")
