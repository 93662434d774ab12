"""Commands of other packages: entry points of the group `penstock.commands`.

A package adds `penstock NAME` by an entry point NAME that refers to a function. Typer reads the
function's parameters and docstring as it reads those of `cli.py`:

    [project.entry-points."penstock.commands"]
    bench = "penstock_lab.cli:bench"

Built-in commands read no entry points. `penstock --help` imports every plug-in for its line of
help, and `penstock NAME` the plug-in of that name only; so a plug-in's module should declare
its command and import the rest when it is called. A plug-in that cannot be imported is reported
by its name on standard error, and all other commands work.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "penstock.commands"

LAB = "penstock-lab, which is not installed; in a clone of Penstock: pip install ./lab"
KNOWN_PACKAGES = {"bench": LAB, "figure": LAB}
"""Commands that users may type before they have installed the package, and what to install."""


class CommandUnavailable(Exception):  # noqa: N818 (nothing went wrong yet: there is nothing to run)
    """The package of this command is not installed, or cannot be imported."""


class PluginGroup(TyperGroup):
    """Built-in commands in their order, then those of plug-ins by name."""

    @cached_property
    def plugins(self) -> dict[str, EntryPoint]:
        """Plug-ins by command; of two with one name, the one whose package comes first by name."""
        from importlib.metadata import entry_points

        found: dict[str, EntryPoint] = {}
        for plugin in sorted(entry_points(group=GROUP), key=_package):
            found.setdefault(plugin.name, plugin)
        return found

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of the commands that can be run; plug-ins that cannot are reported."""
        names = super().list_commands(ctx)
        for name, plugin in sorted(self.plugins.items()):
            if name in self.commands:
                _warn(f"command {name!r} of {_package(plugin)} is ignored: it is built in")
                continue
            try:
                _load(plugin)
            except CommandUnavailable as error:
                _warn(str(error))
            else:
                names.append(name)
        return names

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name, or None."""
        if cmd_name in self.commands:
            return super().get_command(ctx, cmd_name)
        if cmd_name in self.plugins:
            return _load(self.plugins[cmd_name])
        if cmd_name in KNOWN_PACKAGES:
            raise CommandUnavailable(f"`penstock {cmd_name}` needs {KNOWN_PACKAGES[cmd_name]}")
        return None


def _load(plugin: EntryPoint) -> Any:
    """The command that Typer makes of a plug-in's function."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    try:
        app.command(plugin.name)(plugin.load())
        return typer.main.get_command(app)
    except Exception as error:  # whatever a plug-in raises, other commands must work
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise CommandUnavailable(
            f"command {plugin.name!r} of {_package(plugin)} cannot be loaded: {reason}"
        ) from error


def _package(plugin: EntryPoint) -> str:
    """The distribution that declares a plug-in."""
    return plugin.value if plugin.dist is None else plugin.dist.name


def _warn(message: str) -> None:
    typer.echo(f"warning: {message}", err=True)
