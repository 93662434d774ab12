"""SQL in, typed plans out: a dialect on top of Spark's, and a binder that leaves nothing unsaid.

The life of a statement: `parser.dialect` splits a script at its semicolons and parses each statement
(`statements` over `queries` over `expressions`) into the nodes of `ast`; `binder.statements` resolves names (`scope`),
types expressions (`expressions`), builds FROM (`from_`) and the layers above it (`select`), and returns
one of the statements of `bound`. Every error says where.
"""

from penstock.sql.binder.bound import (
    AlterQuery,
    CreateQuery,
    CreateStream,
    CreateTable,
    DropQuery,
    DropStream,
    DropTable,
    Explain,
    Select,
    Statement,
)
from penstock.sql.binder.statements import altered, bind, bind_alter
from penstock.sql.parser.ast import Parsed
from penstock.sql.parser.dialect import parse

__all__ = [
    "AlterQuery",
    "CreateQuery",
    "CreateStream",
    "CreateTable",
    "DropQuery",
    "DropStream",
    "DropTable",
    "Explain",
    "Parsed",
    "Select",
    "Statement",
    "altered",
    "bind",
    "bind_alter",
    "parse",
]
