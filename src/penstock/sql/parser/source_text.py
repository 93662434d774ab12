"""Where in the text: spans, and errors that carry line, column and the offending words.

Offsets are the truth; lines and columns are computed from them when an error is made, because
tokenizers disagree about what a column is and none of that should reach a user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # re-exported there

from penstock.errors import PenstockError

_SHOWN = 60
"""Longer offending texts are cut: an error is one line."""

__all__ = ["NOWHERE", "Source", "Span", "Token", "TokenType", "shortened", "span_of", "span_of_token"]

Error = TypeVar("Error", bound=PenstockError)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the text: from `start` up to but not including `end`."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """The stretch that covers both."""
        return Span(min(self.start, other.start), max(self.end, other.end))


NOWHERE = Span(0, 0)


def shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def span_of_token(token: Token) -> Span:
    return Span(token.start, token.end + 1)


def span_of(node: exp.Expr) -> Span:
    """The stretch a syntax node covers: its own position and those of all below it.

    Parents are asked only when nothing below knows where it stands.
    """
    found = [own for part in node.walk() if (own := _own(part)) is not None]
    if found:
        return Span(min(s.start for s in found), max(s.end for s in found))
    parent = node.parent
    while parent is not None:
        own = _own(parent)
        if own is not None:
            return own
        parent = parent.parent
    return NOWHERE


def _own(node: exp.Expr) -> Span | None:
    meta = node.meta
    if meta.get("start") is None:
        return None
    return Span(int(meta["start"]), int(meta["end"]) + 1)


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a script, able to turn a span into an error's place."""

    text: str

    def cut(self, span: Span) -> str:
        return self.text[span.start : span.end]

    def line_and_column(self, offset: int) -> tuple[int, int]:
        """Both 1-based; a tab is one column."""
        offset = min(offset, len(self.text))
        line = self.text.count("\n", 0, offset) + 1
        return line, offset - self.text.rfind("\n", 0, offset)

    def error(self, kind: type[Error], message: str, span: Span, hint: str = "") -> Error:
        """An error of this kind at this place, to be raised by the caller."""
        line, column = self.line_and_column(span.start)
        shown = shortened(" ".join(self.cut(span).split()))
        return kind(message, line=line, column=column, text=shown or None, hint=hint or None)
