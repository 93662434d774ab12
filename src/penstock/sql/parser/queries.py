"""Queries: SELECT, FROM with windows, set operations, WITH, ISTREAM/DSTREAM/RSTREAM and the P-CQL tail."""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.parser.ast import (
    Common,
    InputSyntax,
    Item,
    JoinInput,
    Name,
    NamedInput,
    QueryInput,
    QuerySyntax,
    SelectSyntax,
    SetSyntax,
    Standing,
    ToStreamSyntax,
    WindowSyntax,
    WithSyntax,
)
from penstock.sql.parser.clauses import CLAUSES, Clauses
from penstock.sql.parser.source_text import Token, TokenType, span_of, span_of_token
from penstock.sql.parser.tokens import NAMES

_STREAMS = ("ISTREAM", "DSTREAM", "RSTREAM")

_BEGIN_QUERIES = (TokenType.SELECT, TokenType.WITH)

_REFUSED_CLAUSES = {
    TokenType.ORDER_BY: ("ORDER BY", "a standing answer has no order; sort what q.snapshot() gives"),
    TokenType.SORT_BY: ("SORT BY", "a standing answer has no order; sort what q.snapshot() gives"),
    TokenType.CLUSTER_BY: ("CLUSTER BY", "the engine partitions by itself"),
    TokenType.DISTRIBUTE_BY: ("DISTRIBUTE BY", "the engine partitions by itself"),
    TokenType.LIMIT: ("LIMIT", "bound the input instead, with a window such as [ROWS 10]"),
    TokenType.FETCH: ("FETCH", "bound the input instead, with a window such as [ROWS 10]"),
    TokenType.OFFSET: ("OFFSET", "bound the input instead, with a window such as [ROWS 10]"),
    TokenType.QUALIFY: ("QUALIFY", "there are no window functions; use HAVING over a windowed stream"),
    TokenType.LATERAL: ("LATERAL", "write the subquery without reference to its neighbours, and join"),
    TokenType.TABLE_SAMPLE: ("TABLESAMPLE", "sampling is not exact; filter by a column instead"),
    TokenType.PIVOT: ("PIVOT", "write SUM(CASE WHEN ... THEN x END) for each column"),
    TokenType.UNPIVOT: ("UNPIVOT", "write a UNION ALL of one SELECT for each column"),
    TokenType.INTO: ("SELECT INTO", "name the query: CREATE QUERY name AS SELECT ..."),
    TokenType.HINT: ("a hint", "the planner chooses; options of connect() force a choice"),
}

_REFUSED_GROUPINGS = ("GROUPING SETS", "ROLLUP", "CUBE")


class Queries(Clauses):
    """From `SELECT` to the last `RANK` clause."""

    __slots__ = ()

    def standing(self) -> Standing:
        """A whole query with its clauses, up to the end of the statement."""
        first = self._curr
        body = self.query()
        tail = self.tail()
        if isinstance(body, ToStreamSyntax) and body.tail.span is not None:
            if tail.span is not None:
                self.fail("clauses stand either inside or after the parentheses, not both", tail.span)
            tail = body.tail
        return Standing(body, tail, self.sql[first.start : self._prev.end + 1])

    # -- set operations and WITH ------------------------------------------------------------------------

    def query(self) -> QuerySyntax:
        if self._curr.token_type == TokenType.WITH:
            return self._with()
        found = self._intersections()
        while self._match_set((TokenType.UNION, TokenType.EXCEPT)):
            kind = "UNION" if self._prev.token_type == TokenType.UNION else "EXCEPT"
            found = self._set(kind, found, self._all(), self._intersections())
        self._refuse_clause()
        return found

    def _intersections(self) -> QuerySyntax:
        """INTERSECT binds tighter than UNION and EXCEPT."""
        found = self._term()
        while self._match(TokenType.INTERSECT):
            found = self._set("INTERSECT", found, self._all(), self._term())
        return found

    def _all(self) -> bool:
        if self._match(TokenType.ALL):
            every = True
        else:
            self._match(TokenType.DISTINCT)
            every = False
        if self.ahead("BY", "NAME"):
            self.fail("BY NAME is not supported", hint="list the columns in the same order")
        return every

    def _set(self, kind: str, left: QuerySyntax, every: bool, right: QuerySyntax) -> SetSyntax:
        return SetSyntax(kind, every, left, right, left.span.to(right.span))

    def _with(self) -> QuerySyntax:
        start = self._curr
        self._advance()
        if self._curr.token_type == TokenType.RECURSIVE:
            self.refuse("WITH RECURSIVE is not supported", self.here(), "standing queries do not recurse")
        commons = tuple(self.listed(self._common))
        body = self.query()
        return WithSyntax(commons, body, span_of_token(start).to(body.span))

    def _common(self) -> Common:
        name = self.name("the name of a common table expression")
        columns: tuple[Name, ...] = ()
        if self._match(TokenType.L_PAREN):
            columns = tuple(self.listed(lambda: self.name("a column name")))
            self.demand(TokenType.R_PAREN, ")")
        self.demand(TokenType.ALIAS, "AS")
        self.demand(TokenType.L_PAREN, "( and a query")
        query = self._nested()
        return Common(name, columns, query)

    def _nested(self) -> QuerySyntax:
        """A query up to its closing parenthesis, where the clauses of a whole query cannot stand."""
        query = self.query()
        if self._clause_ahead():
            self.refuse(
                f"{self._curr.text.upper()} belongs to the whole query",
                self.here(),
                "write it after the outermost query; a stream's own window stands in [...]",
            )
        self.demand(TokenType.R_PAREN, ")")
        return query

    def _term(self) -> QuerySyntax:
        if self._curr.text.upper() in _STREAMS and self._next.token_type == TokenType.L_PAREN:
            return self._to_stream()
        if self._match(TokenType.L_PAREN):
            return self._nested()
        if self._curr.token_type == TokenType.VALUES:
            self.refuse("VALUES is not a standing query", self.here(), "CREATE TABLE, then fill it")
        if not self._match(TokenType.SELECT):
            self.expected("SELECT")
        return self._select(self._prev)

    def _to_stream(self) -> ToStreamSyntax:
        first = self._curr
        self._advance(2)
        query = self.query()
        tail = self.tail()
        closing = self.demand(TokenType.R_PAREN, ")")
        span = span_of_token(first).to(span_of_token(closing))
        return ToStreamSyntax(first.text.upper(), query, tail, span)

    # -- SELECT -----------------------------------------------------------------------------------------

    def _select(self, first: Token) -> SelectSyntax:
        self._refuse_clause()
        distinct = self._match(TokenType.DISTINCT)
        if distinct and self._curr.token_type == TokenType.ON:
            self.refuse("DISTINCT ON is not supported", self.here(), "use GROUP BY with MIN or MAX")
        if not distinct and self._next.token_type != TokenType.DOT:
            self._match(TokenType.ALL)
        items = tuple(self.listed(self._item))
        self._refuse_clause()
        if not self._match(TokenType.FROM):
            if self._curr and not self._ends_select():
                self.expected("FROM")
            span = span_of_token(first).to(items[-1].span)
            self.refuse(
                "SELECT without FROM is not a standing query", span, "name a stream: FROM a [RANGE 100]"
            )
        inputs = tuple(self.listed(self._joined))
        self._refuse_clause()
        where = self.scalar() if self._match(TokenType.WHERE) else None
        group = self._group() if self._match(TokenType.GROUP_BY) else None
        having = self.scalar() if self._match(TokenType.HAVING) else None
        self._refuse_clause()
        span = span_of_token(first).to(span_of_token(self._prev))
        return SelectSyntax(bool(distinct), items, inputs, where, group, having, span)

    def _ends_select(self) -> bool:
        ends = (TokenType.R_PAREN, TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.WHERE)
        return self._curr.token_type in ends

    def _refuse_clause(self) -> None:
        refused = _REFUSED_CLAUSES.get(self._curr.token_type)
        if refused is None:
            return
        name, hint = refused
        self.refuse(f"{name} is not supported", self.here(), hint)

    def _item(self) -> Item:
        expression = self.scalar()
        span = span_of(expression)
        alias = None
        if self._match(TokenType.ALIAS):
            alias = self.name("a name after AS")
        elif self._curr.token_type in NAMES or self._curr.token_type == TokenType.IDENTIFIER:
            alias = self.name("an alias")
        if alias is not None and (isinstance(expression, exp.Star) or isinstance(expression.this, exp.Star)):
            self.fail("a star cannot have an alias", alias.span)
        if self._curr.text.upper() in ("EXCEPT", "EXCLUDE", "REPLACE") and isinstance(expression, exp.Star):
            if self._next.token_type == TokenType.L_PAREN and self._curr.token_type != TokenType.EXCEPT:
                self.fail(f"* {self._curr.text.upper()} is not supported", hint="list the columns")
        return Item(expression, alias, span)

    def _group(self) -> tuple[exp.Expr, ...]:
        if (
            self.ahead("ALL")
            or self._curr.text.upper() in _REFUSED_GROUPINGS
            or self.ahead("GROUPING", "SETS")
        ):
            word = self._curr.text.upper()
            self.refuse(
                f"GROUP BY {word} is not supported",
                self.here(),
                "write a UNION ALL of one GROUP BY for each set",
            )
        return tuple(self.listed(self.scalar))

    # -- FROM -------------------------------------------------------------------------------------------

    def _joined(self) -> InputSyntax:
        left = self._input()
        while (kind := self._join_kind()) is not None:
            right = self._input()
            left = self._condition(left, right, kind)
        return left

    def _condition(self, left: InputSyntax, right: InputSyntax, kind: str) -> JoinInput:
        on: exp.Expr | None = None
        using: tuple[Name, ...] = ()
        if self._match(TokenType.ON):
            if kind == "CROSS":
                self.fail("CROSS JOIN has no ON", span_of_token(self._prev), "write JOIN ... ON")
            on = self.scalar()
        elif self._match(TokenType.USING):
            self.demand(TokenType.L_PAREN, "( after USING")
            using = tuple(self.listed(lambda: self.name("a column name")))
            self.demand(TokenType.R_PAREN, ")")
        elif kind not in ("CROSS", "INNER"):
            self.expected("ON or USING after this join")
        return JoinInput(left, right, kind, on, using, left.span.to(span_of_token(self._prev)))

    def _join_kind(self) -> str | None:
        """Reads `[INNER | CROSS | LEFT [OUTER | ANTI] | ...] JOIN`, or nothing."""
        first = self._curr
        words: list[str] = []
        while self._curr and self._curr.text.upper() in _JOIN_WORDS and words[-1:] != ["JOIN"]:
            words.append(self._curr.text.upper())
            self._advance()
        if not words:
            return None
        written = " ".join(words)
        if words[-1] != "JOIN":
            self.expected("JOIN")
        if written not in _JOINS:
            hint = next((_JOIN_HINTS[word] for word in words if word in _JOIN_HINTS), "write JOIN ... ON")
            span = span_of_token(first).to(span_of_token(self._prev))
            self.refuse(f"{written} is not supported", span, hint)
        return _JOINS[written]

    def _input(self) -> InputSyntax:
        first = self._curr
        self._refuse_clause()
        if self._next.token_type == TokenType.L_PAREN and first.text.upper() in _STREAMS:
            query: QuerySyntax = self._to_stream()
            return self._aliased(query, first)
        if self._match(TokenType.L_PAREN):
            return self._parenthesised(first)
        if self._next.token_type == TokenType.L_PAREN and first.token_type != TokenType.IDENTIFIER:
            if first.text.replace("_", "").isalnum():
                self.refuse(
                    f"the table function {first.text} is not supported",
                    self.here(),
                    "FROM takes streams, tables and subqueries",
                )
        if first.token_type == TokenType.VALUES:
            self.refuse("VALUES in FROM is not supported", self.here(), "CREATE TABLE, then fill it")
        name = self.name("a stream, a table or a subquery")
        if self._curr.token_type == TokenType.DOT:
            self.fail("streams and tables have no schema", name.span.to(self.here()), "write the bare name")
        window, alias = self._window_and_alias()
        return NamedInput(name, window, alias, name.span.to(span_of_token(self._prev)))

    def _parenthesised(self, first: Token) -> InputSyntax:
        """`(SELECT ...)`, or `(a JOIN b ON ...)` which only groups.

        A query in parentheses of its own is told by what follows it: an alias, a window or a join
        makes it one input of a group.
        """
        if self._curr.token_type in _BEGIN_QUERIES or self._begins_query():
            return self._aliased(self._nested(), first)
        inner = self._joined()
        self.demand(TokenType.R_PAREN, ")")
        return inner

    def _begins_query(self) -> bool:
        """Whether a query in parentheses follows that is no input of a group."""
        index = self._index
        while self._match(TokenType.L_PAREN):
            pass
        is_query = self._curr.token_type in _BEGIN_QUERIES or (
            self._curr.text.upper() in _STREAMS and self._next.token_type == TokenType.L_PAREN
        )
        self._retreat(index)
        if not is_query:
            return False
        self._skip_parentheses()
        ends = (TokenType.R_PAREN, TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT)
        goes_on = self._curr.token_type in (*ends, *_REFUSED_CLAUSES) or self._clause_ahead()
        is_query = goes_on or not self._curr
        self._retreat(index)
        return is_query

    def _skip_parentheses(self) -> None:
        """Beyond the parenthesis that closes the next one to open."""
        depth = 0
        while self._curr:
            depth += self._curr.token_type == TokenType.L_PAREN
            depth -= self._curr.token_type == TokenType.R_PAREN
            self._advance()
            if depth == 0 and self._prev.token_type == TokenType.R_PAREN:
                return

    def _aliased(self, query: QuerySyntax, first: Token) -> QueryInput:
        window, alias = self._window_and_alias()
        return QueryInput(query, window, alias, span_of_token(first).to(span_of_token(self._prev)))

    def _window_and_alias(self) -> tuple[WindowSyntax | None, Name | None]:
        """In either order."""
        window = self.window()
        alias = self._alias()
        if self._curr.token_type == TokenType.L_BRACKET:
            if window is not None:
                self.fail("an input has one window")
            window = self.window()
        if self._curr.token_type == TokenType.L_PAREN and alias is not None:
            self.fail("column aliases are not supported here", hint="name the columns in the SELECT list")
        if self.ahead("FOR") or self.ahead("AT") or self.ahead("VERSION"):
            self.refuse("time travel is not supported", self.here(), "use a window")
        return window, alias

    def _alias(self) -> Name | None:
        if self._match(TokenType.ALIAS):
            return self.name("a name after AS")
        if self._curr.text.upper() in _NO_BARE_ALIAS and self._curr.token_type != TokenType.IDENTIFIER:
            return None
        if self._curr.token_type in NAMES or self._curr.token_type == TokenType.IDENTIFIER:
            return self.name("an alias")
        return None


_JOINS = {
    "JOIN": "INNER",
    "INNER JOIN": "INNER",
    "CROSS JOIN": "CROSS",
    "LEFT JOIN": "LEFT",
    "LEFT OUTER JOIN": "LEFT",
    "RIGHT JOIN": "RIGHT",
    "RIGHT OUTER JOIN": "RIGHT",
    "FULL JOIN": "FULL",
    "FULL OUTER JOIN": "FULL",
    "LEFT ANTI JOIN": "ANTI",
    "ANTI JOIN": "ANTI",
}

_JOIN_WORDS = {
    "JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "OUTER", "ANTI", "SEMI", "NATURAL", "ASOF",
    "POSITIONAL", "STRAIGHT_JOIN",
}  # fmt: skip

_NO_BARE_ALIAS = {*_JOIN_WORDS, *CLAUSES}
"""Words that go on with the query; after AS they are names like any other."""

_JOIN_HINTS = {
    "SEMI": "join with SELECT DISTINCT of the right side's key",
    "NATURAL": "name the columns: JOIN ... USING (k)",
    "ASOF": "give the right side a window: [PARTITION BY k ROWS 1]",
}
