"""The dialect: Spark's tokens, our statements; and `parse`, which never raises anything but our errors."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, SqlglotError, TokenError

from penstock.errors import ParseError, PenstockError
from penstock.sql.parser.ast import Parsed
from penstock.sql.parser.source_text import Source, Span, Token, TokenType, span_of_token
from penstock.sql.parser.statements import Scripts
from penstock.types import names

_GAVE_UP = (SqlglotError, ValueError, TypeError, AttributeError, LookupError, AssertionError)
"""What sqlglot raises from corners our grammar should not reach; users get a place all the same."""

_NAMES = {TokenType.IDENTIFIER, TokenType.VAR}

DEEPEST = 48
"""Brackets nested deeper than this are refused: the operator ladder takes a dozen frames a level."""


class Penstock(Spark):
    """Spark SQL as far as words, quotes and comments go."""

    IDENTIFIERS_CAN_START_WITH_DIGIT = False

    class Tokenizer(Spark.Tokenizer):
        """Spark's, without its exceptions."""

        # Since Spark 4 a doubled quote is a quote, as everywhere else.
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']
        # No word swallows the rest of the statement as text.
        COMMANDS: ClassVar[set[TokenType]] = set()
        COMMAND_PREFIX_TOKENS: ClassVar[set[TokenType]] = set()
        NUMERIC_LITERALS: ClassVar[dict[str, str]] = {
            "L": "BIGINT",
            "S": "SMALLINT",
            "Y": "TINYINT",
            "D": "DOUBLE",
            "F": "FLOAT",
        }

    Parser: Any = Scripts


def parse(text: str) -> list[Parsed]:
    """The statements of a script. Raises ParseError, or PlanError for SQL that no standing query has."""
    if text.startswith("\ufeff"):
        text = " " + text[1:]  # the mark some editors put at the start of a file
    source = Source(text)
    tokens = _tokens(source)
    _check_depth(tokens, source)
    parser = Scripts(error_level=ErrorLevel.IMMEDIATE, dialect=Penstock)
    return [_statement(parser, chunk, source) for chunk in _chunks(tokens)]


def _tokens(source: Source) -> list[Token]:
    for offset, character in enumerate(source.text):
        if character == "\0" or "\ud800" <= character <= "\udfff":
            raise source.error(
                ParseError, "the text holds a character that is not text", Span(offset, offset)
            )
    try:
        tokens = list(Penstock().tokenize(source.text))
    except TokenError as error:
        raise _untokenizable(error, source) from None
    except (RecursionError, ValueError, IndexError) as error:
        raise source.error(ParseError, f"cannot read the text: {error}", Span(0, 0)) from None
    for token in tokens:
        is_name = token.text and token.token_type in _NAMES
        wrong = names.fault(token.text) if is_name else None
        if wrong is not None:
            hint = "names are printable characters on one line"
            raise source.error(ParseError, wrong, span_of_token(token), hint)
    return tokens


def _untokenizable(error: TokenError, source: Source) -> ParseError:
    """The tokenizer gives up at an opening quote or comment that nothing closes."""
    start = _unclosed(source.text)
    if start is None:
        end = getattr(error, "end", None) or len(source.text)
        return source.error(ParseError, "cannot read the text here", Span(max(end - 1, 0), end))
    opening = source.text[start]
    what = "comment" if opening == "/" else "quote"
    return source.error(ParseError, f"the {what} that opens here is never closed", Span(start, start + 20))


def _unclosed(text: str) -> int | None:
    """Where the last quote or comment opens, if nothing closes it."""
    at = 0
    while at < len(text):
        if text.startswith("--", at):
            at = text.find("\n", at)
            if at < 0:
                break
        elif text.startswith("/*", at):
            end = text.find("*/", at + 2)
            if end < 0:
                return at
            at = end + 1
        elif text[at] in "'\"`":
            end = _closing(text, at)
            if end < 0:
                return at
            at = end
        at += 1
    return None


def _closing(text: str, at: int) -> int:
    quote, escaped = text[at], False
    for index in range(at + 1, len(text)):
        if escaped:
            escaped = False
        elif text[index] == "\\" and quote != "`":
            escaped = True
        elif text[index] == quote:
            return index
    return -1


def _check_depth(tokens: list[Token], source: Source) -> None:
    opening = {TokenType.L_PAREN: 1, TokenType.L_BRACKET: 1, TokenType.L_BRACE: 1, TokenType.CASE: 1}
    closing = {TokenType.R_PAREN: -1, TokenType.R_BRACKET: -1, TokenType.R_BRACE: -1, TokenType.END: -1}
    change = opening | closing
    depth = 0
    for token in tokens:
        depth = max(depth + change.get(token.token_type, 0), 0)
        if depth > DEEPEST:
            hint = "give the inner parts names with WITH or CREATE QUERY"
            raise source.error(ParseError, f"nested more than {DEEPEST} deep", span_of_token(token), hint)


def _chunks(tokens: list[Token]) -> list[list[Token]]:
    chunks: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            chunks.append([])
        else:
            chunks[-1].append(token)
    return [chunk for chunk in chunks if chunk]


def _statement(parser: Scripts, tokens: list[Token], source: Source) -> Parsed:
    try:
        syntax = parser.read(tokens, source.text)
    except PenstockError:
        raise
    except RecursionError:
        message, hint = "the statement is nested too deeply", "give the inner parts names with WITH"
        raise source.error(
            ParseError, message, span_of_token(parser.stopped_at() or tokens[0]), hint
        ) from None
    except _GAVE_UP as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        span = span_of_token(parser.stopped_at() or tokens[0])
        raise source.error(ParseError, f"cannot read the statement: {reason}", span) from None
    return Parsed(syntax, span_of_token(tokens[0]).to(span_of_token(tokens[-1])), source)
