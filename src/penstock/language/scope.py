"""Which names mean which columns: the inputs of one FROM, side by side."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from penstock.data.schema import Schema
from penstock.errors import BindError
from penstock.language.place import Source, Span
from penstock.plan.expressions import Column, Expression, shifted


def near(word: str, known: Iterable[str], what: str) -> str:
    """A hint: the closest known name, else all of them if they are few."""
    names = list(dict.fromkeys(known))
    by_key = {name.lower(): name for name in names}
    close = difflib.get_close_matches(word.lower(), by_key, n=1, cutoff=0.6)
    if close:
        return f"did you mean {by_key[close[0]]}?"
    if not names:
        return ""
    return f"there are {what} {', '.join(names[:12])}" + (", …" if len(names) > 12 else "")


@dataclass(frozen=True, slots=True)
class Part:
    """One input of FROM: its alias (empty if it has none) and its columns, which begin at `offset`."""

    alias: str
    schema: Schema
    offset: int

    def moved(self, by: int) -> Part:
        return Part(self.alias, self.schema, self.offset + by)


@dataclass(frozen=True, slots=True)
class Scope:
    """The visible columns; `merged` holds those that USING has made one, by lower-case name.

    Names not found here are looked up in `outer`, whose columns come first in the side-by-side schema
    (the subquery of NOT EXISTS).
    """

    parts: tuple[Part, ...]
    merged: dict[str, Expression] = field(default_factory=dict)
    outer: Scope | None = None

    @property
    def width(self) -> int:
        return sum(len(part.schema) for part in self.parts)

    def moved(self, by: int) -> Scope:
        merged = {name: shifted(expression, by) for name, expression in self.merged.items()}
        return Scope(tuple(part.moved(by) for part in self.parts), merged, self.outer)

    def within(self, outer: Scope) -> Scope:
        """This scope as a subquery's, after the columns of the outer one."""
        inner = self.moved(outer.width)
        return Scope(inner.parts, inner.merged, outer)

    def column(self, part: Part, index: int) -> Column:
        field_ = part.schema[index]
        several = len(self.parts) > 1 or self.outer is not None
        shown = f"{part.alias}.{field_.name}" if several and part.alias else field_.name
        return Column(part.offset + index, field_.type, shown)

    def matches(self, name: str, alias: str | None) -> Iterator[Column]:
        for part in self.parts:
            if alias is None or part.alias.lower() == alias.lower():
                for index, column in enumerate(part.schema):
                    if column.name.lower() == name.lower():
                        yield self.column(part, index)

    def find(self, name: str, alias: str | None, span: Span, source: Source) -> Expression | None:
        """The column of this name, None if there is none; two are an error."""
        if alias is None and name.lower() in self.merged:
            return self.merged[name.lower()]
        found = list(self.matches(name, alias))
        if len(found) > 1:
            shown = [column.name for column in found]
            hint = f"write one of {', '.join(shown)}" if len(set(shown)) > 1 else "rename one of them"
            raise source.error(BindError, f"column {name} is ambiguous", span, hint)
        if found:
            return found[0]
        if self.outer is not None and not (alias is not None and self.has(alias)):
            return self.outer.find(name, alias, span, source)
        return None

    def has(self, alias: str) -> bool:
        return any(part.alias.lower() == alias.lower() for part in self.parts)

    def everything(self) -> Iterator[tuple[str, str]]:
        """(alias, column) of all that can be named, outer scopes included."""
        for part in self.parts:
            for column in part.schema:
                yield part.alias, column.name
        if self.outer is not None:
            yield from self.outer.everything()

    def unknown(self, name: str, alias: str | None, span: Span, source: Source) -> BindError:
        """The error for a name that means nothing here, with what it may have meant."""
        known = list(self.everything())
        aliases = list(dict.fromkeys(a for a, _ in known if a))
        if alias is not None and alias.lower() not in (a.lower() for a in aliases):
            return source.error(BindError, f"no input {alias} in FROM", span, near(alias, aliases, "the inputs"))
        columns = [c for a, c in known if alias is None or a.lower() == alias.lower()]
        shown = name if alias is None else f"{alias}.{name}"
        return source.error(BindError, f"no column {shown}", span, near(name, columns, "the columns"))

    def expand(self, alias: str | None) -> list[tuple[str, Expression]]:
        """Columns of `*` (those that USING merged come once, first) or of `alias.*`."""
        found: list[tuple[str, Expression]] = []
        if alias is None:
            found += [(self._written(name), expression) for name, expression in self.merged.items()]
        for part in self.parts:
            if alias is None or part.alias.lower() == alias.lower():
                for index, column in enumerate(part.schema):
                    if alias is not None or column.name.lower() not in self.merged:
                        found.append((column.name, self.column(part, index)))
        return found

    def _written(self, name: str) -> str:
        return next(c.name for part in self.parts for c in part.schema if c.name.lower() == name)
