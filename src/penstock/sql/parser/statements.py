"""Statements: what may stand between two semicolons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.sql.parser.ast import (
    AlterSyntax,
    Amount,
    ColumnSyntax,
    CreateQuerySyntax,
    CreateStreamSyntax,
    CreateTableSyntax,
    DropSyntax,
    ExplainSyntax,
    Name,
    RankSyntax,
    SelectStatementSyntax,
    StatementSyntax,
    Storage,
    WatermarkSyntax,
)
from penstock.sql.parser.queries import Queries
from penstock.sql.parser.source_text import Token, TokenType, shortened, span_of_token

_STATEMENTS = "SELECT, CREATE STREAM, CREATE TABLE, CREATE QUERY, ALTER QUERY, DROP or EXPLAIN"

_TRAILING = {
    "SELECT": "statements are separated by ;",
    "ILIKE": "write lower(s) LIKE 'pattern'",
    "RLIKE": "there are LIKE, starts_with, ends_with and contains",
    "DIV": "write floor(x / y)",
    "&": "there are no operators on bits",
    "|": "there are no operators on bits",
}

_INSTEAD = {
    "VIEW": "a standing query is a CREATE QUERY",
    "FUNCTION": "functions are Python: s.create_function(name, fn, returns=...)",
}


class Scripts(Queries):
    """One statement at a time; the caller has cut the script at its semicolons."""

    __slots__ = ()

    def read(self, tokens: list[Token], text: str) -> StatementSyntax:
        """The one statement these tokens of the text make."""
        found: list[StatementSyntax] = []
        self._parse(lambda _: found.append(self.statement()), tokens, text)
        return found[0]

    def stopped_at(self) -> Token | None:
        """The token that was being read when something gave up."""
        return self._curr or self._prev or None

    def statement(self) -> StatementSyntax:
        reader = _READERS.get(self._curr.text.upper())
        if self._curr.token_type == TokenType.IDENTIFIER:
            reader = None
        if reader is None and self._curr.token_type != TokenType.L_PAREN:
            self.expected("a statement", f"statements begin with {_STATEMENTS}")
        found = reader(self) if reader else self.bare_query()
        if self._curr:
            self._trailing()
        return found

    def _trailing(self) -> None:
        token = self._curr
        hint = ""
        if token.text.upper() in ("LIFESPAN", "WINDOW", "RANK"):
            hint = "a number follows this word: WINDOW 30 SECONDS, LIFESPAN 500 MILLISECONDS, RANK 1 CRITERIA (...)"
        elif token.token_type == TokenType.L_BRACKET:
            hint = "a window stands directly after a stream in FROM"
        elif token.token_type in (TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING):
            hint = "the order is FROM, WHERE, GROUP BY, HAVING, then WINDOW, LIFESPAN, RANK"
        else:
            hint = _TRAILING.get(token.text.upper(), "")
        self.fail(f"{shortened(token.text)!r} is not expected here", span_of_token(token), hint)

    def bare_query(self) -> SelectStatementSyntax:
        return SelectStatementSyntax(self.standing())

    # -- CREATE -----------------------------------------------------------------------------------------

    def create(self) -> StatementSyntax:
        self._advance()
        if self.ahead("OR", "REPLACE"):
            self.fail("OR REPLACE is not supported", hint="DROP it first")
        if self.word("STREAM"):
            return self._create_stream()
        if self.word("QUERY"):
            return self._create_query()
        retroactive = self.word("RETROACTIVE")
        if not self._match(TokenType.TABLE):
            self.expected(
                "STREAM, TABLE, RETROACTIVE TABLE or QUERY", _INSTEAD.get(self._curr.text.upper(), "")
            )
        return self._create_table(retroactive)

    def _new_name(self, what: str) -> Name:
        if self.ahead("IF", "NOT", "EXISTS"):
            self.fail(
                "IF NOT EXISTS is not supported", hint="creating what exists is an error that changes nothing"
            )
        name = self.name(what)
        if self._curr.token_type == TokenType.DOT:
            self.fail("names have no schema", name.span.to(self.here()), "write the bare name")
        return name

    def _create_stream(self) -> CreateStreamSyntax:
        name = self._new_name("the name of the stream")
        columns = self._columns()
        storage = self._storage()
        if not self.word("WATERMARK"):
            self.expected(
                "WATERMARK", "a stream says how late its rows may be: WATERMARK ts DELAY OF INTERVAL 0"
            )
        return CreateStreamSyntax(name, columns, storage, self._watermark())

    def _watermark(self) -> WatermarkSyntax:
        """Clauses in any order, each once; without DELAY OF rows come in time order."""
        time = self.name("the time column")
        found: dict[str, Any] = {}
        while self._curr:
            clause, first = self._curr.text.upper(), self.here()
            if self.word("DELAY", "OF"):
                made: dict[str, Any] = {"delay": self.amount("the delay")}
            elif self.word("UNIT"):
                made = {"unit": self.name("a unit of time")}
            elif self.word("AHEAD", "UNLIMITED"):
                made = {"unlimited": True}
            elif self.word("AHEAD", "AT", "MOST"):
                made = {"ahead": self.amount("how far ahead a row may be")}
            elif self.word("IDLE", "AFTER"):
                made = {"idle": self.amount("how long a stream is silent before it is idle")}
            else:
                break
            if found.keys() & made.keys() or {"ahead", "unlimited"} <= found.keys() | made.keys():
                self.fail(f"{clause} is there twice", first, "write each clause of WATERMARK once")
            found |= made
        if not found:
            self.expected("DELAY OF", "WATERMARK ts DELAY OF INTERVAL 5 SECONDS")
        return WatermarkSyntax(time, found.pop("delay", Amount(0, None, time.span)), **found)

    def _create_table(self, retroactive: bool) -> CreateTableSyntax:
        name = self._new_name("the name of the table")
        columns = self._columns()
        storage = self._storage()
        if self.ahead("WATERMARK"):
            self.fail("a table has no watermark", hint="CREATE STREAM has")
        return CreateTableSyntax(name, columns, storage, retroactive)

    def _columns(self) -> tuple[ColumnSyntax, ...]:
        self.demand(TokenType.L_PAREN, "( and the columns")
        columns = tuple(self.listed(self._column_definition))
        self.demand(TokenType.R_PAREN, ") or a comma")
        return columns

    def _column_definition(self) -> ColumnSyntax:
        name = self.name("a column name")
        first = self._curr
        written = self.type_name()
        return ColumnSyntax(name, Name(written.name, span_of_token(first).to(span_of_token(self._prev))))

    def _storage(self) -> Storage:
        if not self._match(TokenType.USING):
            return Storage()
        name = self.name("the name of a format")
        options: tuple[tuple[str, str], ...] = ()
        if self.word("OPTIONS"):
            self.demand(TokenType.L_PAREN, "( after OPTIONS")
            options = tuple(self.listed(self._option))
            self.demand(TokenType.R_PAREN, ") or a comma")
        return Storage(name.text, options)

    def _option(self) -> tuple[str, str]:
        """`key 'value'`, `key = 'value'`, `'key' 'value'`, `a.b.c 5`."""
        if self._match(TokenType.STRING):
            key = self._prev.text
        else:
            key = self.name("the name of an option").text
            while self._match(TokenType.DOT):
                key += "." + self.name("the name of an option").text
        self._match(TokenType.EQ)
        if not self._match_set((TokenType.STRING, TokenType.NUMBER, TokenType.TRUE, TokenType.FALSE)):
            self.expected("the value of the option, in quotes")
        return key, self._prev.text

    def _create_query(self) -> CreateQuerySyntax:
        name = self._new_name("the name of the query")
        self.demand(TokenType.ALIAS, "AS")
        return CreateQuerySyntax(name, self.standing())

    # -- the rest ---------------------------------------------------------------------------------------

    def drop(self) -> DropSyntax:
        self._advance()
        kind = self._curr.text.upper()
        if not (self.word("QUERY") or self.word("STREAM") or self.word("TABLE")):
            self.expected("QUERY, STREAM or TABLE after DROP")
        return DropSyntax(kind, self.name(f"the name of the {kind.lower()}"))

    def explain(self) -> ExplainSyntax:
        self._advance()
        analyze = self.word("ANALYZE")
        return ExplainSyntax(self.standing(), analyze)

    def alter(self) -> AlterSyntax:
        self._advance()
        if not self.word("QUERY"):
            self.expected("QUERY after ALTER")
        name = self.name("the name of the query")
        self.demand(TokenType.SET, "SET")
        if self.word("LIFESPAN"):
            return AlterSyntax(name, self.amount("the lifespan"), None)
        if self.word("WEIGHT"):
            return AlterSyntax(name, None, None, self._weight())
        if not self.ahead("RANK"):
            self.expected("LIFESPAN, RANK or WEIGHT after SET")
        ranks: list[RankSyntax] = []
        while self.ahead("RANK"):
            ranks.append(self.rank())
        return AlterSyntax(name, None, tuple(ranks))

    def _weight(self) -> Name:
        """A number, with its sign if somebody wrote one: what it may be is for the binder to say."""
        first = self._curr
        sign = "-" if self._match(TokenType.DASH) else ""
        number = self.demand(TokenType.NUMBER, "a number after WEIGHT")
        return Name(sign + number.text, span_of_token(first).to(span_of_token(number)))


_READERS: dict[str, Callable[[Scripts], StatementSyntax]] = {
    "SELECT": Scripts.bare_query,
    "WITH": Scripts.bare_query,
    "ISTREAM": Scripts.bare_query,
    "DSTREAM": Scripts.bare_query,
    "RSTREAM": Scripts.bare_query,
    "VALUES": Scripts.bare_query,
    "CREATE": Scripts.create,
    "DROP": Scripts.drop,
    "EXPLAIN": Scripts.explain,
    "ALTER": Scripts.alter,
}
