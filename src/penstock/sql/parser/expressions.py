"""Scalar expressions: sqlglot's ladder of operators over atoms of our own.

Precedence comes from sqlglot's Spark parser. The atoms (names, literals, calls, CASE, CAST, IN,
BETWEEN, IS, intervals) are read here, because sqlglot forgives much: it reads `x BETWEEN 1 5`, drops a
trailing comma, and knows operators of thirty other databases. What is read here is read whole or
refused at its place; the tables below leave nothing else in the ladder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.parser import binary_range_parser

from penstock.sql.parser.ast import QuerySyntax
from penstock.sql.parser.source_text import Token, TokenType, span_of, span_of_token
from penstock.sql.parser.tokens import NAMES, Words

_NOT_FUNCTIONS = {
    TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.IN, TokenType.IS, TokenType.LIKE, TokenType.BETWEEN,
    TokenType.SELECT, TokenType.FROM, TokenType.WHERE, TokenType.HAVING, TokenType.GROUP_BY, TokenType.ON,
    TokenType.USING, TokenType.JOIN, TokenType.THEN, TokenType.ELSE, TokenType.WHEN, TokenType.END,
    TokenType.CASE, TokenType.WINDOW, TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.ALIAS,
    TokenType.DISTINCT, TokenType.ORDER_BY, TokenType.NULL, TokenType.TRUE, TokenType.FALSE,
    TokenType.INTERVAL, TokenType.STRING, TokenType.NUMBER, TokenType.VALUES, TokenType.ESCAPE,
    TokenType.DIV, TokenType.WITH, TokenType.ALL, TokenType.ANY, TokenType.SOME,
}  # fmt: skip

_STARTS_QUERY = {TokenType.SELECT, TokenType.WITH, TokenType.VALUES}

_EXTRACTS = {"YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "DAYOFWEEK", "EPOCH"}


class Exists(exp.Expression):
    """EXISTS (query): `this` is a `QuerySyntax`, which sqlglot carries without looking inside."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Atoms(Words):
    """Strict atoms under sqlglot's operators; every node knows where it stands."""

    BITWISE: ClassVar[dict[TokenType, Any]] = {}
    TERM: ClassVar[dict[TokenType, Any]] = {TokenType.DASH: exp.Sub, TokenType.PLUS: exp.Add}
    FACTOR: ClassVar[dict[TokenType, Any]] = {
        TokenType.MOD: exp.Mod,
        TokenType.SLASH: exp.Div,
        TokenType.STAR: exp.Mul,
    }
    UNARY_PARSERS: ClassVar[dict[TokenType, Any]] = {
        TokenType.PLUS: lambda self: self.read_signed(None),
        TokenType.DASH: lambda self: self.read_signed(exp.Neg),
        TokenType.NOT: lambda self: self.read_negated(),
    }
    RANGE_PARSERS: ClassVar[dict[TokenType, Any]] = {
        TokenType.BETWEEN: lambda self, this: self._parse_between(this),
        TokenType.IN: lambda self, this: self._parse_in(this),
        TokenType.IS: lambda self, this: self._parse_is(this),
        TokenType.LIKE: binary_range_parser(exp.Like),
    }
    JSON_OPERATORS: ClassVar[dict[TokenType, Any]] = {}

    __slots__ = ()

    query: Callable[[], QuerySyntax]
    """Reads a nested query: a method of the class that knows queries."""

    def scalar(self) -> exp.Expr:
        """A whole expression that must be there."""
        found = self._parse_disjunction()
        if found is None:
            self.expected("an expression")
        return found

    def operand(self) -> exp.Expr:
        """What may stand on either side of a comparison."""
        found = self._parse_bitwise()
        if found is None:
            self.expected("an expression")
        return found

    def _spanning(self, node: exp.Expr, first: Token, last: Token) -> exp.Expr:
        """The node, placed from the first token to the last."""
        found = self.expression(node, first)
        found.meta["end"] = last.end
        return found

    # -- predicates -------------------------------------------------------------------------------------

    def read_signed(self, kind: Callable[..., exp.Expr] | None) -> exp.Expr:
        sign = self._prev
        inner = self._parse_unary()
        if inner is None:
            self.expected("an expression")
        return inner if kind is None else self.expression(kind(this=inner), sign)

    def read_negated(self) -> exp.Expr:
        token = self._prev
        inner = self._parse_equality()
        if inner is None:
            self.expected("an expression after NOT")
        return self.expression(exp.Not(this=inner), token)

    def _parse_between(self, this: exp.Expr | None) -> exp.Between:
        low = self.operand()
        self.demand(TokenType.AND, "AND between the two ends of BETWEEN")
        return self.expression(exp.Between(this=this, low=low, high=self.operand()))

    def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.In:
        del alias
        token = self._prev
        self.demand(TokenType.L_PAREN, "( after IN")
        if self._curr.token_type in _STARTS_QUERY:
            self.refuse(
                "IN (SELECT ...) is not supported",
                span_of_token(token).to(self.here()),
                "join with the subquery, or write NOT EXISTS (SELECT ...) for NOT IN",
            )
        items = self.listed(self.scalar)
        closing = self.demand(TokenType.R_PAREN, ")")
        return self.expression(exp.In(this=this, expressions=items), closing)

    def _parse_is(self, this: exp.Expr | None) -> exp.Expr:
        negated = self._match(TokenType.NOT)
        if self.word("DISTINCT", "FROM"):
            kind = exp.NullSafeEQ if negated else exp.NullSafeNEQ
            return self.expression(kind(this=this, expression=self.operand()))
        token = self._curr
        if self._match(TokenType.NULL) or self.word("UNKNOWN"):
            value: exp.Expr = exp.Null()
        elif self._match_set((TokenType.TRUE, TokenType.FALSE)):
            value = exp.Boolean(this=token.token_type == TokenType.TRUE)
        else:
            self.expected("NULL, TRUE, FALSE or DISTINCT FROM after IS")
        found: exp.Expr = self.expression(exp.Is(this=this, expression=self.expression(value, token)))
        return self.expression(exp.Not(this=found)) if negated else found

    # -- atoms ------------------------------------------------------------------------------------------

    def _parse_unary(self) -> exp.Expr | None:
        if self._match_set(self.UNARY_PARSERS):
            found: exp.Expr = self.UNARY_PARSERS[self._prev.token_type](self)
            return found
        return self._parse_type()

    def _parse_type(
        self, parse_interval: bool = True, fallback_to_identifier: bool = False
    ) -> exp.Expr | None:
        del parse_interval, fallback_to_identifier
        atom = self._atom()
        while atom is not None and self._match(TokenType.DCOLON):
            atom = self.expression(exp.Cast(this=atom, to=self.type_name()))
        return atom

    def _atom(self) -> exp.Expr | None:
        token = self._curr
        reader = _ATOMS.get(token.token_type)
        if reader is not None:
            return reader(self)
        if self._next.token_type == TokenType.L_PAREN and self._may_be_function(token):
            return self._call()
        if self._next.token_type == TokenType.STRING and token.text.upper() in ("TIMESTAMP", "DATE"):
            return self._typed_literal()
        if token.token_type == TokenType.IDENTIFIER or token.token_type in NAMES:
            return self.read_column()
        return None

    def _may_be_function(self, token: Token) -> bool:
        word = token.text.replace("_", "")
        return token.token_type not in _NOT_FUNCTIONS and word.isalnum() and not word[0].isdigit()

    def read_literal(self) -> exp.Expr:
        self._advance()
        token = self._prev
        literal = exp.Literal(this=token.text, is_string=token.token_type == TokenType.STRING)
        if literal.is_string and self._curr.token_type == TokenType.STRING:
            self.fail("two string literals in a row", hint="join them with ||")
        if self._curr.start == token.end + 1 and self._curr.token_type in NAMES:
            span = span_of_token(token).to(self.here())
            self.fail("a literal runs into a name", span, "put a space or an operator between them")
        return self.expression(literal, token)

    def read_fraction(self) -> exp.Expr | None:
        """`.5`: the tokenizer makes two tokens of it."""
        if self._next.token_type != TokenType.NUMBER or self._curr.end + 1 != self._next.start:
            return None
        point = self._curr
        self._advance(2)
        return self._spanning(exp.Literal(this=f"0.{self._prev.text}", is_string=False), point, self._prev)

    def read_constant(self) -> exp.Expr:
        self._advance()
        token = self._prev
        if token.token_type == TokenType.NULL:
            return self.expression(exp.Null(), token)
        return self.expression(exp.Boolean(this=token.token_type == TokenType.TRUE), token)

    def _typed_literal(self) -> exp.Expr:
        """`TIMESTAMP '...'`, `DATE '...'`: a cast whose text is checked when it is bound."""
        to = self.type_name()
        return self.expression(exp.Cast(this=self.read_literal(), to=to, action="literal"))

    def read_interval(self) -> exp.Expr:
        """`INTERVAL 5 SECONDS`, `INTERVAL '5' SECOND`, `INTERVAL '5 seconds'`."""
        token = self._curr
        self._advance()
        sign = "-" if self._match(TokenType.DASH) else ""
        if not self._match_set((TokenType.NUMBER, TokenType.STRING)):
            self.expected("a number after INTERVAL")
        number, _, unit = self._prev.text.strip().partition(" ")
        value = self.expression(exp.Literal(this=sign + number, is_string=True), self._prev)
        if not unit:
            if self._curr.token_type not in NAMES:
                self.expected("a unit such as SECONDS after the number of an INTERVAL")
            self._advance()
            unit = self._prev.text
        if self.ahead("TO"):
            self.fail("intervals of the form x TO y are not supported", hint="write a sum of intervals")
        node = exp.Interval(this=value, unit=self.expression(exp.Var(this=unit.strip().upper()), self._prev))
        return self._spanning(node, token, self._prev)

    def type_name(self) -> exp.Expr:
        """A type as written; what it means is decided when it is bound."""
        if not self._curr or not self._curr.text.replace("_", "").isalnum() or self._curr.text[0].isdigit():
            self.expected("a type")
        first = self._curr
        self._advance()
        word = first.text.upper()
        if self._curr.token_type == TokenType.L_PAREN:
            word += self._type_arguments()
        return self.expression(exp.Var(this=word), first)

    def _type_arguments(self) -> str:
        self._advance()
        numbers = self.listed(lambda: self.demand(TokenType.NUMBER, "a number").text)
        self.demand(TokenType.R_PAREN, ")")
        return f"({', '.join(numbers)})"

    def read_column(self) -> exp.Expr:
        """`x`, `a.x`, `a.*`."""
        first = self._identifier()
        if not self._match(TokenType.DOT):
            return self.expression(exp.Column(this=first))
        if self._match(TokenType.STAR):
            star = self.expression(exp.Star(), self._prev)
            return self.expression(exp.Column(this=star, table=first))
        second = self._identifier(after_dot=True)
        if self._curr.token_type in (TokenType.DOT, TokenType.L_PAREN, TokenType.L_BRACKET):
            self.fail(
                "a name has at most two parts, alias.column",
                span_of(first).to(self.here()),
                "streams have no schemas, and columns no fields",
            )
        return self.expression(exp.Column(this=second, table=first))

    def _identifier(self, after_dot: bool = False) -> exp.Identifier:
        token = self._curr
        word = after_dot and token.text.replace("_", "").isalnum() and not token.text[0].isdigit()
        if not (token.token_type == TokenType.IDENTIFIER or token.token_type in NAMES or word):
            self.expected("a column name")
        self._advance()
        return self.expression(
            exp.Identifier(this=token.text, quoted=token.token_type == TokenType.IDENTIFIER), token
        )

    def read_star(self) -> exp.Expr:
        self._advance()
        return self.expression(exp.Star(), self._prev)

    def read_paren(self) -> exp.Expr:
        self._advance()
        opening = self._prev
        if self._curr.token_type in _STARTS_QUERY:
            self.refuse(
                "a subquery cannot stand for a value",
                span_of_token(opening).to(self.here()),
                "put it in FROM and join with it",
            )
        inner = self.scalar()
        if self._curr.token_type == TokenType.COMMA:
            self.fail("a list of values in parentheses is not an expression", hint="compare column by column")
        closing = self.demand(TokenType.R_PAREN, ")")
        return self._spanning(exp.Paren(this=inner), opening, closing)

    def read_case(self) -> exp.Expr:
        self._advance()
        token = self._prev
        subject = None if self._curr.token_type == TokenType.WHEN else self.scalar()
        branches = []
        while self._match(TokenType.WHEN):
            condition = self.scalar()
            self.demand(TokenType.THEN, "THEN")
            branches.append(self.expression(exp.If(this=condition, true=self.scalar())))
        if not branches:
            self.expected("WHEN")
        default = self.scalar() if self._match(TokenType.ELSE) else None
        closing = self.demand(TokenType.END, "WHEN, ELSE or END")
        return self._spanning(exp.Case(this=subject, ifs=branches, default=default), token, closing)

    # -- calls ------------------------------------------------------------------------------------------

    def _call(self) -> exp.Expr:
        """`f(...)`: always an `exp.Anonymous`; what the name means is the binder's business."""
        token = self._curr
        self._advance(2)
        special = _SPECIAL.get(token.text.upper()) if token.token_type != TokenType.IDENTIFIER else None
        node = special(self, token) if special else self._plain_call(token)
        closing = self.demand(TokenType.R_PAREN, ") or a comma")
        node = self._spanning(node, token, closing)
        self._refuse_window_function(token)
        return node

    def anonymous(self, name: str, arguments: list[exp.Expr]) -> exp.Expr:
        return self.expression(exp.Anonymous(this=name, expressions=arguments))

    def _plain_call(self, token: Token) -> exp.Expr:
        if self._curr.token_type == TokenType.R_PAREN:
            return self.anonymous(token.text, [])
        if self._match(TokenType.DISTINCT):
            distinct = self.expression(exp.Distinct(expressions=self.listed(self.scalar)), self._prev)
            return self.anonymous(token.text, [distinct])
        self._match(TokenType.ALL)
        if self._curr.token_type in _STARTS_QUERY:
            self.refuse("a query cannot be an argument", self.here(), "put it in FROM and join with it")
        return self.anonymous(token.text, self.listed(self.scalar))

    def _refuse_window_function(self, token: Token) -> None:
        span = span_of_token(token).to(self.here())
        if self._curr.token_type == TokenType.OVER:
            self.refuse(
                "window functions (OVER) are not supported",
                span,
                "give the stream a window, such as a [RANGE 100], and aggregate over it",
            )
        if self._curr.token_type == TokenType.FILTER and self._next.token_type == TokenType.L_PAREN:
            self.refuse("FILTER is not supported", span, "write SUM(CASE WHEN condition THEN x END) instead")
        if self.ahead("WITHIN", "GROUP"):
            self.refuse("WITHIN GROUP is not supported", span, "aggregates here do not depend on order")

    def read_cast(self, token: Token) -> exp.Expr:
        inner = self.scalar()
        if not self._match(TokenType.ALIAS):
            self.expected("AS and a type in CAST")
        safe = token.text.upper() != "CAST"
        return self.expression((exp.TryCast if safe else exp.Cast)(this=inner, to=self.type_name()))

    def read_extract(self, token: Token) -> exp.Expr:
        del token
        part = self._curr
        self._advance()
        if part.text.upper() not in _EXTRACTS:
            self.fail(
                f"EXTRACT knows no {part.text}", span_of_token(part), f"one of {', '.join(sorted(_EXTRACTS))}"
            )
        if not (self._match(TokenType.FROM) or self._match(TokenType.COMMA)):
            self.expected("FROM in EXTRACT")
        return self.anonymous(part.text, [self.scalar()])

    def read_substring(self, token: Token) -> exp.Expr:
        arguments = self.listed(self.scalar)
        if len(arguments) == 1 and self._match(TokenType.FROM):
            arguments.append(self.scalar())
            if self._match(TokenType.FOR):
                arguments.append(self.scalar())
        return self.anonymous(token.text, arguments)

    def read_trim(self, token: Token) -> exp.Expr:
        """`TRIM(x)`, `TRIM(LEADING FROM x)`, `TRIM(BOTH 'c' FROM x)`."""
        side = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}.get(self._curr.text.upper())
        if side is None or self._next.token_type in (TokenType.R_PAREN, TokenType.COMMA):
            return self.anonymous(token.text, self.listed(self.scalar))
        self._advance()
        characters = None if self._curr.token_type == TokenType.FROM else self.scalar()
        self.demand(TokenType.FROM, "FROM in TRIM")
        inner = self.scalar()
        return self.anonymous(side, [inner] if characters is None else [inner, characters])

    def read_position(self, token: Token) -> exp.Expr:
        first = self.operand()
        if not self._match(TokenType.IN):
            arguments = [first]
            while self._match(TokenType.COMMA):
                arguments.append(self.scalar())
            return self.anonymous(token.text, arguments)
        return self.anonymous(token.text, [first, self.scalar()])

    def read_exists(self) -> exp.Expr | None:
        if self._next.token_type != TokenType.L_PAREN:
            return None
        token = self._curr
        self._advance(2)
        query = self.query()
        return self._spanning(Exists(this=query), token, self.demand(TokenType.R_PAREN, ")"))


_SPECIAL: dict[str, Callable[[Atoms, Token], exp.Expr]] = {
    "CAST": Atoms.read_cast,
    "TRY_CAST": Atoms.read_cast,
    "EXTRACT": Atoms.read_extract,
    "SUBSTRING": Atoms.read_substring,
    "SUBSTR": Atoms.read_substring,
    "TRIM": Atoms.read_trim,
    "POSITION": Atoms.read_position,
}

_ATOMS: dict[TokenType, Callable[[Atoms], exp.Expr | None]] = {
    TokenType.NUMBER: Atoms.read_literal,
    TokenType.STRING: Atoms.read_literal,
    TokenType.DOT: Atoms.read_fraction,
    TokenType.NULL: Atoms.read_constant,
    TokenType.TRUE: Atoms.read_constant,
    TokenType.FALSE: Atoms.read_constant,
    TokenType.INTERVAL: Atoms.read_interval,
    TokenType.STAR: Atoms.read_star,
    TokenType.L_PAREN: Atoms.read_paren,
    TokenType.CASE: Atoms.read_case,
    TokenType.EXISTS: Atoms.read_exists,
}
