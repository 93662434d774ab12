"""`penstock warm`: compile every kernel now, so that no program waits for one later."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from penstock.cli.warm_kernels import PHASES
from penstock.cli.warm_kernels import warm as compile_all


def warm() -> None:
    """With its progress on a terminal; one line at the end."""
    console = Console()
    bar = Progress(
        TextColumn("compiling kernels: {task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("", total=len(PHASES))

        def shown(name: str) -> None:
            bar.update(task, description=name)
            bar.advance(task)

        done = compile_all(shown)
    if done.compiled:
        said = f"{done.compiled} compiled in {done.compiling:.0f} s"
    else:
        said = "all were compiled before"
    sys.stdout.write(f"kernels are ready: {said}\n")
