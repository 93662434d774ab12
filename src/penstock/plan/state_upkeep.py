"""How state is kept up to date: by which execution, how often, in how many partitions (Golab & Özsu 2005, §2.3 and §5.3).

None of it changes an answer: rows end when they end, and are told so in time order, whenever somebody looks.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from penstock.plan.join_tree import Demand, Tree


class Expiry(Enum):
    """Executions of one plan.

    UPA       structures follow the update pattern of their edge; negative tuples only where rows end early
    DIRECT    nothing is known about the order in which rows end: state is searched for what has ended
    NEGATIVE  every window is kept and says with a negative tuple when a row ends; nobody looks at announced ends
    HYBRID    as UPA below what takes results back, as NEGATIVE from there on (§5.4.3)
    """

    UPA = "upa"
    HYBRID = "hybrid"
    DIRECT = "direct"
    NEGATIVE = "negative"

    @property
    def aware(self) -> bool:
        """Whether structures follow update patterns."""
        return self in (Expiry.UPA, Expiry.HYBRID)


@dataclass(slots=True)
class Upkeep:
    """Shared by all operators of an engine; everything but `expiry`, `tree` and `demand` may change while they run."""

    expiry: Expiry = Expiry.UPA
    eager: int | None = None
    """Time units after which state that answers hang on is looked at; None: once a step."""
    lazy: float = 0.05
    """The same for state that is only probed, as a share of how long its rows live."""
    partitions: int | None = None
    """Of a calendar, rounded up to a power of two; None: by the number of rows."""
    tree: Tree | None = None
    """How joins keep partial results; None: they keep none."""
    demand: Demand = Demand.JIT
    """Which partial results joins make."""

    @property
    def trees(self) -> str:
        """What the state of trees hangs on; a join without one keeps the same rows whatever it makes of them."""
        return str(None if self.tree is None else f"{self.tree}, demand {self.demand.value}")

    def json(self) -> dict[str, Any]:
        tree = None if self.tree is None else self.tree.json()
        return {**asdict(self), "expiry": self.expiry.value, "tree": tree, "demand": self.demand.value}

    @classmethod
    def of(cls, told: dict[str, Any]) -> Upkeep:
        tree = told.get("tree")
        tree = None if tree is None else Tree.of(tree)
        expiry, demand = Expiry(told["expiry"]), Demand(told["demand"])
        return cls(**{**told, "expiry": expiry, "tree": tree, "demand": demand})

    def tune(self, other: Upkeep) -> None:
        """Take over all that may change."""
        self.eager, self.lazy, self.partitions = other.eager, other.lazy, other.partitions
