"""Steps of the bitmap programs on whole vectors, written as instructions: a loop over words is not made into vectors by itself.

`at[side, row]` is where in `bits` the words of a row begin for one side; `planes` are vertical counters, bit l of all queries' counts
in plane l, and in the last what has left the lowest six.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from penstock_lab.reference.bitmap_tables import BLOCK, SIDES

LANES = 8
"""Words in a vector, 512 bits; where the machine has less, one becomes several."""
PLANES = 17
LOW = 6
"""Planes that every eight rows are added to; a block of 64 rows carries out of them once at most."""

_I64 = ir.IntType(64)
_intrinsic: Any = intrinsic


@_intrinsic
def lowest(_: Any, word: Any) -> Any:
    """The place of the lowest bit of a word that has one."""

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.int64(word), emit


class _Words:
    """Vectors of a flat array of words."""

    def __init__(self, context: Any, builder: Any, kind: Any, array: Any, lanes: int) -> None:
        self.builder = builder
        self.data = context.make_array(kind)(context, builder, array).data
        self.kind = ir.VectorType(_I64, lanes)

    def _at(self, place: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(self.data, [place]), self.kind.as_pointer())

    def load(self, place: Any) -> Any:
        return self.builder.load(self._at(place), align=8)

    def store(self, vector: Any, place: Any) -> None:
        self.builder.store(vector, self._at(place), align=8)


class _Meeting:
    """The rows of `bits` that make up the bitmaps of some rows."""

    def __init__(
        self, context: Any, builder: Any, kinds: Sequence[Any], values: Sequence[Any], lanes: int
    ) -> None:
        self.builder = builder
        self.bits = _Words(context, builder, kinds[0], values[0], lanes)
        self.at = context.make_array(kinds[1])(context, builder, values[1]).data
        self.row = values[2]

    def sides(self, row: int) -> list[Any]:
        """Where the sides of a row begin."""
        builder = self.builder
        places = [builder.add(self.row, _I64(side * BLOCK + row)) for side in range(SIDES)]
        return [builder.zext(builder.load(builder.gep(self.at, [place])), _I64) for place in places]

    def meet(self, sides: Sequence[Any], offset: int) -> Any:
        """The queries that all sides let through, from the word `offset` on."""
        first, *others = (self.bits.load(self.builder.add(side, _I64(offset))) for side in sides)
        for other in others:
            first = self.builder.and_(first, other)
        return first


def _adder(builder: Any, a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """Carry and sum of three bits in every place."""
    half = builder.xor(a, b)
    return builder.or_(builder.and_(a, b), builder.and_(half, c)), builder.xor(half, c)


@cache
def steps(words: int) -> tuple[Any, Any, Any, Any]:
    """`add`, `ripple`, `count` and `meet` for tiles so many words wide."""
    lanes = min(words, LANES)
    vector = ir.VectorType(_I64, lanes)

    def offsets() -> Iterator[int]:
        return iter(range(0, words, lanes))

    def ripple_(builder: Any, planes: _Words, carry: Any, levels: range, offset: int) -> Any:
        for level in levels:
            place = _I64(level * words + offset)
            held = planes.load(place)
            planes.store(builder.xor(held, carry), place)
            carry = builder.and_(held, carry)
        return carry

    @_intrinsic
    def add(_: Any, bits: Any, at: Any, row: Any, planes: Any) -> Any:
        """Eight rows: seven adders bring them into the planes of 1, 2 and 4, and a carry of 8 ripples on."""

        def emit(context: Any, b: Any, signature: Any, values: Any) -> Any:
            rows = _Meeting(context, b, signature.args, values, lanes)
            p = _Words(context, b, signature.args[3], values[3], lanes)
            sides = [rows.sides(r) for r in range(8)]
            for offset in offsets():
                x = [rows.meet(s, offset) for s in sides]
                one, two, four = (p.load(_I64(level * words + offset)) for level in range(3))
                two_a, one = _adder(b, one, x[0], x[1])
                two_b, one = _adder(b, one, x[2], x[3])
                four_a, two = _adder(b, two, two_a, two_b)
                two_a, one = _adder(b, one, x[4], x[5])
                two_b, one = _adder(b, one, x[6], x[7])
                four_b, two = _adder(b, two, two_a, two_b)
                carry, four = _adder(b, four, four_a, four_b)
                for level, low in enumerate((one, two, four)):
                    p.store(low, _I64(level * words + offset))
                carry = ripple_(b, p, carry, range(3, LOW), offset)
                left = _I64(PLANES * words + offset)
                p.store(b.or_(p.load(left), carry), left)
            return context.get_dummy_value()

        return types.void(bits, at, row, planes), emit

    @_intrinsic
    def ripple(_: Any, planes: Any) -> Any:
        """What has left the low planes goes on to the others."""

        def emit(context: Any, b: Any, signature: Any, values: Any) -> Any:
            p = _Words(context, b, signature.args[0], values[0], lanes)
            for offset in offsets():
                left = _I64(PLANES * words + offset)
                carry = p.load(left)
                p.store(ir.Constant(vector, None), left)
                ripple_(b, p, carry, range(LOW, PLANES), offset)
            return context.get_dummy_value()

        return types.void(planes), emit

    @_intrinsic
    def count(_: Any, bits: Any, at: Any, row: Any) -> Any:
        """How many queries a row is for."""

        def emit(context: Any, b: Any, signature: Any, values: Any) -> Any:
            rows = _Meeting(context, b, signature.args, values, lanes)
            kinds = f"v{lanes}i64"
            ones = cgutils.get_or_insert_function(
                b.module, ir.FunctionType(vector, [vector]), f"llvm.ctpop.{kinds}"
            )
            total = cgutils.get_or_insert_function(
                b.module, ir.FunctionType(_I64, [vector]), f"llvm.vector.reduce.add.{kinds}"
            )
            sides, found = rows.sides(0), ir.Constant(vector, None)
            for offset in offsets():
                found = b.add(found, b.call(ones, [rows.meet(sides, offset)]))
            return b.call(total, [found])

        return types.int64(bits, at, row), emit

    @_intrinsic
    def meet(_: Any, bits: Any, at: Any, row: Any, x: Any) -> Any:
        """The bitmap of a row."""

        def emit(context: Any, b: Any, signature: Any, values: Any) -> Any:
            rows = _Meeting(context, b, signature.args, values, lanes)
            out = _Words(context, b, signature.args[3], values[3], lanes)
            sides = rows.sides(0)
            for offset in offsets():
                out.store(rows.meet(sides, offset), _I64(offset))
            return context.get_dummy_value()

        return types.void(bits, at, row, x), emit

    return add, ripple, count, meet
