"""Words of a statement: what comes next, where it stands, and how to refuse it.

The lowest layer of the parser. Every complaint, also sqlglot's own, becomes an error of ours with its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from sqlglot.parsers.spark import SparkParser

from penstock.errors import ParseError, PlanError
from penstock.sql.parser.ast import Name
from penstock.sql.parser.source_text import (
    Source,
    Span,
    Token,
    TokenType,
    shortened,
    span_of_token,
)

_RESERVED = {
    TokenType.ALL, TokenType.ANTI, TokenType.ANY, TokenType.CASE, TokenType.END, TokenType.ESCAPE,
    TokenType.EXISTS, TokenType.FALSE, TokenType.FULL, TokenType.IN, TokenType.IS, TokenType.LEFT,
    TokenType.LIMIT, TokenType.NATURAL, TokenType.OFFSET, TokenType.OVER, TokenType.RIGHT, TokenType.SEMI,
    TokenType.SOME, TokenType.TRUE, TokenType.WINDOW, TokenType.NULL, TokenType.ISNULL, TokenType.INTERVAL,
    TokenType.SET, TokenType.DIV, TokenType.PIVOT, TokenType.UNPIVOT,
}  # fmt: skip

NAMES = frozenset((SparkParser.ID_VAR_TOKENS | {TokenType.RANGE}) - _RESERVED)
"""Tokens that may stand for a name without back quotes."""


class Words(SparkParser):
    """Reads a token at a time; what it cannot read it refuses at its place."""

    __slots__ = ()

    @property
    def source(self) -> Source:
        return Source(self.sql)

    def here(self) -> Span:
        """The current token, or the end of the statement."""
        if self._curr:
            return span_of_token(self._curr)
        end = self._prev.end + 1 if self._prev else len(self.sql)
        return Span(end, end)

    def fail(self, message: str, span: Span | None = None, hint: str = "") -> NoReturn:
        raise self.source.error(ParseError, message, span or self.here(), hint)

    def refuse(self, message: str, span: Span, hint: str) -> NoReturn:
        """For what is SQL but has no standing meaning here."""
        raise self.source.error(PlanError, message, span, hint)

    def raise_error(self, message: str, token: Token | None = None) -> NoReturn:
        """Sqlglot's own complaints, in our class and with our place."""
        span = span_of_token(token) if token else self.here()
        if message.startswith("Required"):
            self.expected("an expression")
        self.fail(message, span)

    def expected(self, what: str, hint: str = "") -> NoReturn:
        found = f"found {shortened(self._curr.text)!r}" if self._curr else "the statement ends"
        if not hint and self._curr and self._curr.token_type is TokenType.WINDOW:
            hint = "windows are written behind a stream: FROM s [RANGE 5 MINUTES SLIDE 5 MINUTES]"
        self.fail(f"expected {what}, but {found}", hint=hint)

    def demand(self, token_type: TokenType, what: str) -> Token:
        if not self._match(token_type):
            self.expected(what)
        return self._prev

    def word(self, *words: str) -> bool:
        """Matches words in a row, whatever kind of token the tokenizer made of them."""
        return bool(self._match_text_seq(*words))

    def ahead(self, *words: str) -> bool:
        return bool(self._match_text_seq(*words, advance=False))

    def name(self, what: str) -> Name:
        """A name that must be there."""
        if not (self._match(TokenType.IDENTIFIER) or self._match_set(NAMES)):
            reserved = bool(self._curr) and self._curr.text.isalpha()
            self.expected(what, "a reserved word can be a name in `back quotes`" if reserved else "")
        if not self._prev.text.strip():
            self.fail("a name cannot be empty", span_of_token(self._prev))
        return Name(self._prev.text, span_of_token(self._prev))

    def listed(self, one: Callable[[], Any]) -> list[Any]:
        """One or more, separated by commas; a comma promises another one."""
        found = [one()]
        while self._match(TokenType.COMMA):
            found.append(one())
        return found
