"""A running query: operators in the order in which they run, and what they remember."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.errors import DataError
from penstock.operators.aggregate.group_by import Grouping
from penstock.operators.aggregate.sliding_sums import SlidingSums
from penstock.operators.capabilities import Counts, Holding, Holds, Shrinks, TakesIn
from penstock.operators.contract import Operator
from penstock.operators.expressions.compiled import RowError
from penstock.operators.filter_project import Projection
from penstock.operators.join.fifo_join import FifoJoin
from penstock.operators.join.multiway_join import MultiwayJoin
from penstock.operators.join.shared_join_output import Met
from penstock.operators.join.tree_join import TreeJoin
from penstock.plan.nodes import Node
from penstock.plan.query_root import Root
from penstock.state.arena import Arena
from penstock.types import sizes
from penstock.types.batch import Array, Batch
from penstock.types.data_type import Type
from penstock.types.event_time import EARLIEST, EPOCH, FIRST_INSTANT

Key = tuple[str, str]
"""('stream' | 'table', name in lower case), or what is shared: (LEAF | JOIN, its streams and a number, by lines)."""
LEAF, JOIN = "leaf", "join"


@dataclass(slots=True)
class Pipeline:
    """Operators in the order they run; each names its inputs among sources and earlier operators."""

    arena: Arena
    root: Root
    """The plan it runs; a query that came to it has a plan of its own that is equal."""
    sources: list[Key] = field(default_factory=list)
    stages: list[tuple[Operator, tuple[int, ...]]] = field(default_factory=list)
    """Inputs below 0 count sources from -1 down."""
    time_type: Type = Type.BIGINT
    may_move: bool = False
    """Another plan may take its place."""
    shares: bool = False
    """Predicates over streams are tested elsewhere, for many queries at once."""
    meets: bool = False
    """Joins of streams are made elsewhere, too."""
    told: bool = False
    """Every end of the answer's rows comes as a '-'."""
    lazy: bool = False
    """Nothing is remembered and nothing can fail: it may run over the rows of several steps at once, later."""
    likeness: tuple[object, ...] = ()
    """If it is lazy: where this is the same, the same is said of a row."""
    operators: dict[int, list[Operator]] = field(default_factory=dict)
    """By the identity of the plan's node that they run."""
    places: dict[int, int] = field(default_factory=dict)
    """By the same: which stage (or source) gives the node's changes."""
    names: dict[int, list[str]] = field(default_factory=dict)
    """By the same: how the names of its arrays begin."""
    parts: dict[int, list[int]] = field(default_factory=dict)
    """By the same: nodes of another form of the node, by identity, that run in its place."""
    _counting: list[Counts] | None = None
    """Operators that count partial results, once somebody has asked."""
    _roomy: list[Shrinks] | None = None
    """Operators whose room grows, once some has."""

    def step(self, feeds: Mapping[tuple[str, str], Batch], now: int) -> Batch:
        """Let time pass until `now`; changes of the sources → changes of the answer."""
        leaves = [feeds[s] for s in self.sources]
        if not self.stages:
            return leaves[0]
        made: list[Batch] = []
        for operator, inputs in self.stages:
            batches = [made[i] if i >= 0 else leaves[-1 - i] for i in inputs]
            made.append(self._stepped(operator, batches, now))
        return made[-1]

    def between(self, given: Collection[int], node: Node) -> list[int]:
        """Stages that run up to a node where changes of some below it are given, and those of tables come; what is below these does not run."""
        known = {*given, *(-1 - n for n, (kind, _) in enumerate(self.sources) if kind == "table")}
        found = []
        for at in range(self.places[id(node)] + 1):
            if at not in known and known.issuperset(self.stages[at][1]):
                known.add(at)
                found.append(at)
        return found

    def joined(
        self, stages: Sequence[int], given: Mapping[int, Batch], feeds: Mapping[Key, Batch], now: int
    ) -> Batch:
        """Changes of the last of these stages (`between`)."""
        made: dict[int, Batch] = dict(given)
        for n, source in enumerate(self.sources):
            if source in feeds:
                made[-1 - n] = feeds[source]
        for at in stages:
            operator, inputs = self.stages[at]
            made[at] = self._stepped(operator, [made[i] for i in inputs], now)
        return made[stages[-1]]

    def entry(self, node: Node, which: int) -> tuple[int, int] | None:
        """Where rows of a node's input enter: the stage, and which of its inputs. Two inputs that read one table have one source, though
        each may keep other columns of its rows. None: there is no one stage."""
        own = {id(operator) for operator in self.operators[id(node)]}
        source = self.places[id(node.inputs[which])]
        found = [
            (at, n)
            for at, (operator, inputs) in enumerate(self.stages)
            if id(operator) in own
            for n, read in enumerate(inputs)
            if read == source
        ]
        if len(found) > 1:
            whole = [at for at, _ in found if len(self.stages[at][1]) == len(node.inputs)]
            found = [(at, n) for at, n in found if at in whole and n == which]
        return found[0] if len(found) == 1 else None

    def feed(self, rows: Mapping[tuple[int, int], Batch], nodes: Collection[int], now: int) -> None:
        """Let only the operators of some nodes see rows, given by the stage and which of its inputs they are; what these
        operators say is known already."""
        own = {id(one) for node in nodes for one in self.operators.get(node, ())}
        made: dict[int, Batch] = {}
        some = [at for at, (operator, _) in enumerate(self.stages) if id(operator) in own]
        for at in some:
            operator, inputs = self.stages[at]
            batches = [rows[at, n] if (at, n) in rows else made[i] for n, i in enumerate(inputs)]
            if at == some[-1] and isinstance(operator, TakesIn):  # nobody reads what it says
                operator.take_in(batches, now)
            else:
                made[at] = self._stepped(operator, batches, now)

    def begin_with(self, alive: Sequence[Batch], node: Node, now: int) -> None:
        """Let a join begin with the rows that are alive on its inputs."""
        rows: dict[tuple[int, int], Batch] = {}
        for which, batch in enumerate(alive):
            entry = self.entry(node, which)
            assert entry is not None, "one operator joins all inputs"
            rows[entry] = batch
        self.feed(rows, [id(node)], now)

    def _stepped(self, operator: Operator, batches: Sequence[Batch], now: int) -> Batch:
        try:
            return operator.step(batches, now)
        except RowError as failed:
            raise self._told(failed, batches) from failed.__cause__

    def _told(self, failed: RowError, batches: Sequence[Batch]) -> DataError:
        """The error with the time of its row, if the operator has said it or the row is one of its inputs'."""
        for batch in batches:
            if failed.ts is None and failed.columns is batch.columns:
                failed.note_time(batch.ts)
        return told(failed, self.time_type)

    def shrink(self, coming: int) -> None:
        """Give back room that neither what is remembered nor so many new rows need. Between steps."""
        if not self.arena.roomy:
            return
        for operator in self._shrinking():
            operator.shrink(coming)
        self.arena.look_again()

    def _shrinking(self) -> list[Shrinks]:
        if self._roomy is None:
            self._roomy = [one for one, _ in self.stages if isinstance(one, Shrinks)]
        return self._roomy

    def current(self, now: int) -> Batch | None:
        """The answer itself if the plan ends in GROUP BY below projections, whose groups hold it."""
        for at in range(len(self.stages) - 1, -1, -1):
            operator = self.stages[at][0]
            if isinstance(operator, Grouping | SlidingSums):
                batch = operator.current(now)
                for above, _ in self.stages[at + 1 :]:
                    batch = self._stepped(above, [batch], now)
                return batch
            if not isinstance(operator, Projection):
                return None
        return None

    def operators_of(self, node: Node) -> list[Operator]:
        """What runs a node."""
        nodes = (id(node), *self.parts.get(id(node), ()))
        return [operator for one in nodes for operator in self.operators.get(one, ())]

    def names_of(self, node: Node) -> list[str]:
        """How the names of its arrays begin."""
        nodes = (id(node), *self.parts.get(id(node), ()))
        return [name for one in nodes for name in self.names.get(one, ())]

    def holdings(self, node: Node) -> list[Holding]:
        """What the operators of a node remember now."""
        held = [one for one in self.operators_of(node) if isinstance(one, Holds)]
        return [holding for one in held for holding in one.holdings()]

    def saved(self) -> Arena:
        """Everything that it remembers."""
        return self.arena

    def mark_strings(self, mark: Callable[[Array], None]) -> None:
        """Tell which string codes it holds."""
        self.arena.mark_strings(mark)

    @property
    def counts(self) -> list[Counts]:
        """Operators that count partial results."""
        if self._counting is None:
            self._counting = [one for one, _ in self.stages if isinstance(one, Counts)]
        return self._counting

    def counted(self, node: Node | None = None) -> dict[str, int]:
        """Partial results of a node's operators, or of all: made, suppressed, questions asked; of trees rows that were set aside, partial results made
        after all, and bytes spared, too."""
        own = None if node is None else {id(one) for one in self.operators_of(node)}
        told = [one.counted() for one in self.counts if own is None or id(one) in own]
        return {
            what: sum(one[what] for one in told if what in one)
            for what in ("made", "suppressed", "suspended", "resumed", "spared", "asked")
            if any(what in one for one in told)
        }

    @property
    def slice(self) -> int:
        """How many rows of all streams a step may take: fewer where a join makes several rows of one."""
        joins = any(
            isinstance(operator, FifoJoin | TreeJoin | MultiwayJoin | Met) for operator, _ in self.stages
        )
        return sizes.current.step_rows // 2 if joins else sizes.current.step_rows

    @property
    def streams(self) -> set[str]:
        own = {name for kind, name in self.sources if kind == "stream"}
        return own.union(*(name.split("\n")[:-1] for kind, name in self.sources if kind in (LEAF, JOIN)))

    @property
    def tables(self) -> set[str]:
        return {name for kind, name in self.sources if kind == "table"}


def told(failed: RowError, time_type: Type) -> DataError:
    """What the user sees of an error whose row's time may be known."""
    if failed.ts is None or failed.ts in (EARLIEST, FIRST_INSTANT):  # a table's rows from the beginning
        return failed.told(None)
    if time_type is not Type.TIMESTAMP:
        return failed.told(str(failed.ts))
    return failed.told(str(EPOCH + dt.timedelta(microseconds=failed.ts)))
