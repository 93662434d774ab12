"""SQL in, typed plans out: a dialect on top of Spark's, and a binder that leaves nothing unsaid.

The life of a statement: `dialect.parse` cuts a script at its semicolons and reads each statement
(`scripts` over `queries` over `atoms`) into the shapes of `syntax`; `bind` resolves names (`scope`),
types expressions (`scalars`), builds FROM (`inputs`) and the layers above it (`select`), and answers
with one of `statements`. Every error says where.
"""

from penstock.language.bind import altered, bind, bind_alter
from penstock.language.dialect import parse
from penstock.language.statements import (
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
from penstock.language.syntax import Parsed

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
