"""What names mean: streams, tables and Python functions known to a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.plan.function_hash import PYTHON, function_hash
from penstock.types.data_type import Type
from penstock.types.event_time import LATEST
from penstock.types.schema import Schema

UNLIMITED = LATEST
"""As `Stream.ahead`: rows may be any time ahead."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A base stream. `time` is the position of its time column (BIGINT or TIMESTAMP); `delay` is in time
    units (microseconds for TIMESTAMP).

    `ahead`: how far ahead a row may be, in time units (None: the default of the time's type; UNLIMITED: any).
    `idle`: microseconds without rows after which it holds the clock back no more. `unit`: microseconds that one
    stands for where times come as whole numbers (None: microseconds, and what looks like another unit is refused).

    Plans are equal whatever `delay`, `ahead` and `idle` are: they may change while queries run.
    """

    name: str
    schema: Schema
    time: int
    delay: int = field(default=0, compare=False)
    format: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    ahead: int | None = field(default=None, compare=False)
    idle: int | None = field(default=None, compare=False)
    unit: int | None = None

    @property
    def time_type(self) -> Type:
        return self.schema[self.time].type


@dataclass(frozen=True, slots=True)
class Table:
    """A relation: non-retroactive (updates act on later arrivals only) or retroactive."""

    name: str
    schema: Schema
    retroactive: bool = False
    format: str | None = None
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    """A registered Python function: deterministic; `vectorized` takes Arrow arrays and gives one back; `cost` in work units a call."""

    name: str
    body: Callable[..., object]
    returns: Type
    vectorized: bool = False
    cost: float = 1.0
    version: str | None = None
    """Given by the user to say when it means something else; None: its code says so."""

    @property
    def identity(self) -> str:
        """What it is, the same in every process: result type, kind, and version or hash of the code."""
        kind = f"{self.returns}:{'vectorized' if self.vectorized else 'scalar'}"
        if self.version is not None:
            return f"{kind}:version {self.version}"
        return f"{kind}:python {PYTHON}:{function_hash(self.body)}"


@dataclass(slots=True)
class Catalog:
    """Names are case-insensitive; keys are lower case. Streams and tables share one name space."""

    streams: dict[str, Stream] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
