"""What a script asks for, bound and typed: the binder's answers."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.catalog import Stream, Table
from penstock.plan.nodes import Query, Rank
from penstock.types.schema import Schema


@dataclass(frozen=True, slots=True)
class CreateStream:
    stream: Stream


@dataclass(frozen=True, slots=True)
class CreateTable:
    table: Table


@dataclass(frozen=True, slots=True)
class CreateQuery:
    name: str
    query: Query


@dataclass(frozen=True, slots=True)
class DropQuery:
    name: str


@dataclass(frozen=True, slots=True)
class DropStream:
    name: str


@dataclass(frozen=True, slots=True)
class DropTable:
    name: str


@dataclass(frozen=True, slots=True)
class Explain:
    query: Query
    analyze: bool = False


@dataclass(frozen=True, slots=True)
class Select:
    query: Query


@dataclass(frozen=True, slots=True)
class AlterQuery:
    """`lifespan`, `ranks` or `weight`, one of them; None means it stays as it is.

    Criteria need the query's own FROM, so `bind` leaves `ranks` None for SET RANK and `bind_alter`,
    which is given the query's text, fills them in. `sets_ranks` says that this is still to be done.
    """

    name: str
    lifespan: int | None = None
    ranks: tuple[Rank, ...] | None = None
    over: Schema = ()
    """The columns that their criteria are over."""
    sets_ranks: bool = False
    weight: float | None = None


Statement = (
    CreateStream | CreateTable | CreateQuery | DropQuery | DropStream | DropTable
    | Explain | Select | AlterQuery
)  # fmt: skip
