"""SQL in, typed plans out: a dialect on top of Spark's, and a binder that leaves nothing unsaid.

The life of a statement: `dialect.parse` cuts a script at its semicolons and reads each statement
(`scripts` over `queries` over `atoms`) into the shapes of `syntax`; `bind` resolves names (`scope`),
types expressions (`scalars`), builds FROM (`inputs`) and the layers above it (`select`), and answers
with one of `statements`. Every error says where.
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
