"""Clauses that streams add to SQL: windows and their lengths, and P-CQL's LIFESPAN, RANK and COVER."""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.parser.ast import Amount, CoverSyntax, RankSyntax, Tail, WindowSyntax
from penstock.sql.parser.expressions import Atoms
from penstock.sql.parser.source_text import Span, TokenType, span_of_token
from penstock.sql.parser.tokens import NAMES

CLAUSES = ("WINDOW", "LIFESPAN", "RANK")


class Clauses(Atoms):
    """`[RANGE 5 MINUTES]` after an input; `LIFESPAN 10 SECONDS RANK 1 CRITERIA (...)` after a query."""

    __slots__ = ()

    # -- windows ----------------------------------------------------------------------------------------

    def window(self) -> WindowSyntax | None:
        if not self._match(TokenType.L_BRACKET):
            return None
        first = self._prev
        kind, length, slide = self._curr.text.upper(), None, None
        partition: tuple[exp.Expr, ...] = ()
        if self.word("RANGE"):
            length = self.amount("the length of the window")
            slide = self.amount("the slide of the window") if self.word("SLIDE") else None
        elif self.word("ROWS"):
            length = self._count()
        elif self._match(TokenType.PARTITION_BY):
            kind = "ROWS"
            partition = tuple(self.listed(self.read_column))
            if not self.word("ROWS"):
                self.expected("ROWS after PARTITION BY")
            length = self._count()
        elif not (self.word("NOW") or self.word("UNBOUNDED")):
            self.expected(
                "a window", "[RANGE 100], [RANGE 5 MINUTES SLIDE 1 MINUTE], [ROWS 50], "
                "[PARTITION BY k ROWS 1], [NOW] or [UNBOUNDED]; a tumbling window slides by its length",
            )  # fmt: skip
        closing = self.demand(TokenType.R_BRACKET, "]")
        return WindowSyntax(kind, Span(first.start, closing.end + 1), length, slide, partition)

    def _count(self) -> Amount:
        count = self.amount("the number of rows")
        if count.unit is not None:
            self.fail("ROWS takes a plain number", count.span)
        return count

    def amount(self, what: str) -> Amount:
        """`100`, `5 MINUTES`, `INTERVAL 5 MINUTES`, `'5' MINUTES`, `'5 minutes'`."""
        first = self._curr
        self._match(TokenType.INTERVAL)
        negative = self._match(TokenType.DASH)
        if not self._match_set((TokenType.NUMBER, TokenType.STRING)):
            self.expected(what)
        number, _, unit = self._prev.text.strip().partition(" ")
        if not unit and self._unit_ahead():
            self._advance()
            unit = self._prev.text
        span = span_of_token(first).to(span_of_token(self._prev))
        if not (number.isascii() and number.isdigit()):
            self.fail(f"{what} is a whole number", span, "use a smaller unit for fractions")
        if len(number) > 19:
            self.fail("the number is too large", span)
        value = -int(number) if negative else int(number)
        return Amount(value, unit.strip().upper() or None, span)

    def _unit_ahead(self) -> bool:
        """Any word that is not a keyword of ours is taken for a unit, so that a wrong one can be named."""
        word = self._curr.text.upper()
        keywords = (
            "SLIDE",
            "CRITERIA",
            "LIFESPAN",
            "RANK",
            "WATERMARK",
            "USING",
            "BY",
            "DELAY",
            "UNIT",
            "AHEAD",
            "IDLE",
        )
        return self._curr.token_type in NAMES and word.isalpha() and word not in keywords

    # -- the tail ---------------------------------------------------------------------------------------

    def _clause_ahead(self) -> bool:
        """A clause keyword counts only before a number: `rank` and `lifespan` stay good column names."""
        if self._curr.text.upper() not in CLAUSES or self._curr.token_type == TokenType.IDENTIFIER:
            return False
        return self._next.token_type in (
            TokenType.NUMBER,
            TokenType.STRING,
            TokenType.INTERVAL,
            TokenType.DASH,
        )

    def tail(self) -> Tail:
        start = self._curr
        window: Amount | None = None
        lifespan: Amount | None = None
        ranks: list[RankSyntax] = []
        while self._clause_ahead():
            keyword = self._curr
            word = keyword.text.upper()
            if (word == "WINDOW" and window) or (word == "LIFESPAN" and lifespan):
                self.fail(f"{word} is given twice")
            if word == "RANK":
                ranks.append(self.rank())
                continue
            self._advance()
            amount = self.amount(f"the length of the {word}")
            window, lifespan = (amount, lifespan) if word == "WINDOW" else (window, amount)
        if self._curr.token_type == TokenType.WINDOW:
            self.refuse(
                "named windows are not supported", self.here(), "WINDOW takes a length: WINDOW 30 SECONDS"
            )
        given = window is not None or lifespan is not None or ranks
        return Tail(window, lifespan, tuple(ranks), span_of_token(start) if given else None)

    def rank(self) -> RankSyntax:
        """`RANK n CRITERIA (predicate) [COVER EVERY period BY columns]`."""
        first = self._curr
        if not self.word("RANK"):
            self.expected("RANK")
        number = self.demand(TokenType.NUMBER, "the level after RANK")
        if not number.text.isdigit() or len(number.text) > 9:
            self.fail("a rank is a whole number", span_of_token(number))
        level = Amount(int(number.text), None, span_of_token(number))
        if not self.word("CRITERIA"):
            self.expected("CRITERIA")
        self.demand(TokenType.L_PAREN, "( after CRITERIA")
        criteria = self.scalar()
        self.demand(TokenType.R_PAREN, ")")
        cover = self._cover() if self.ahead("COVER") else None
        return RankSyntax(level, criteria, span_of_token(first).to(span_of_token(self._prev)), cover)

    def _cover(self) -> CoverSyntax:
        first = self._curr
        self._advance()
        if not self.word("EVERY"):
            self.expected("EVERY after COVER", "COVER EVERY 10 SECONDS BY id")
        every = self.amount("the period of COVER")
        if not self.word("BY"):
            self.expected("BY and the columns that tell objects apart", "COVER EVERY 10 SECONDS BY id")
        by = tuple(self.listed(self.scalar))
        return CoverSyntax(every, by, span_of_token(first).to(span_of_token(self._prev)))
