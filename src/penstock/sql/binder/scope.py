"""Which names mean which columns: the inputs of one FROM, side by side."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from penstock.errors import BindError
from penstock.plan.expressions import Column, Expression, shifted
from penstock.sql.parser.source_text import Source, Span
from penstock.types.schema import Schema


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
class Merged:
    """Columns that USING has made one: the name, what it stands for, and the positions it hides."""

    name: str
    expression: Expression
    hides: frozenset[int]

    def moved(self, by: int) -> Merged:
        return Merged(self.name, shifted(self.expression, by), frozenset(i + by for i in self.hides))


@dataclass(frozen=True, slots=True)
class Scope:
    """The visible columns, side by side.

    Names not found here are looked up in `outer`, whose columns come first in the side-by-side schema
    (the subquery of NOT EXISTS). `qualified` columns are shown with their alias.
    """

    parts: tuple[Part, ...]
    merged: tuple[Merged, ...] = ()
    outer: Scope | None = None
    qualified: bool = False

    @property
    def width(self) -> int:
        return sum(len(part.schema) for part in self.parts)

    def moved(self, by: int) -> Scope:
        parts = tuple(part.moved(by) for part in self.parts)
        return Scope(parts, tuple(one.moved(by) for one in self.merged), self.outer, self.qualified)

    def beside(self, right: Scope) -> Scope:
        """Both; the right one has been moved behind this one."""
        return Scope(self.parts + right.parts, self.merged + right.merged, qualified=True)

    def merging(self, new: list[Merged]) -> Scope:
        """With these columns merged; a merging of merged columns hides all that they hid."""
        kept = list(self.merged)
        for one in new:
            hides = one.hides
            for older in [o for o in kept if not o.hides.isdisjoint(one.hides)]:
                kept.remove(older)
                hides |= older.hides
            kept.append(Merged(one.name, one.expression, hides))
        return Scope(self.parts, tuple(kept), self.outer, self.qualified)

    def within(self, outer: Scope) -> Scope:
        """This scope as a subquery's, after the columns of the outer one."""
        inner = self.moved(outer.width)
        shown = Scope(outer.parts, outer.merged, outer.outer, qualified=True)
        return Scope(inner.parts, inner.merged, shown, qualified=True)

    def column(self, part: Part, index: int) -> Column:
        field = part.schema[index]
        shown = f"{part.alias}.{field.name}" if self.qualified and part.alias else field.name
        return Column(part.offset + index, field.type, shown)

    def columns(self, alias: str | None) -> Iterator[tuple[str, Expression]]:
        """(name, what it stands for) of all columns, or of those of one input.

        Without an alias merged columns come once and first; with one, nothing is hidden.
        """
        hidden: set[int] = set()
        if alias is None:
            for one in self.merged:
                hidden |= one.hides
                yield one.name, one.expression
        for part in self.parts:
            if alias is None or part.alias.lower() == alias.lower():
                for index, field in enumerate(part.schema):
                    if part.offset + index not in hidden:
                        yield field.name, self.column(part, index)

    def find(self, name: str, alias: str | None, span: Span, source: Source) -> Expression | None:
        """The column of this name, None if there is none; two are an error."""
        found = [one for known, one in self.columns(alias) if known.lower() == name.lower()]
        if len(found) > 1:
            shown = list(dict.fromkeys(str(one) for one in found))
            hint = (
                f"write one of {', '.join(shown)}" if len(shown) > 1 else "rename one of them in a subquery"
            )
            raise source.error(BindError, f"column {name} is ambiguous", span, hint)
        if found:
            return found[0]
        if self.outer is not None and not (alias is not None and self.has(alias)):
            return self.outer.find(name, alias, span, source)
        return None

    def must_find(self, name: str, span: Span, source: Source) -> Expression:
        found = self.find(name, None, span, source)
        if found is None:
            raise self.unknown(name, None, span, source)
        return found

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
            return source.error(
                BindError, f"no input {alias} in FROM", span, near(alias, aliases, "the inputs")
            )
        columns = [c for a, c in known if alias is None or a.lower() == alias.lower()]
        shown = name if alias is None else f"{alias}.{name}"
        return source.error(BindError, f"no column {shown}", span, near(name, columns, "the columns"))
