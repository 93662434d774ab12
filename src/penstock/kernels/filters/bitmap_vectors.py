"""Words of bitmaps, eight at a time.

LLVM does not turn loops over words into vector instructions where it cannot see that arrays are apart, and here it cannot.
Each function works on `LANES` words of arrays taken as flat, at given places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

LANES = 8
"""512 bits; where the machine has less, one instruction becomes several."""

_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(_WORD, LANES)
_intrinsic: Any = intrinsic


class _Words:
    """Vectors (or single words) of an array, whatever its shape."""

    def __init__(self, context: Any, builder: Any, kind: Any, array: Any, lanes: int = LANES) -> None:
        self._builder = builder
        self._data = context.make_array(kind)(context, builder, array).data
        self.pointer = (_VECTOR if lanes == LANES else _WORD).as_pointer()

    def _at(self, place: Any) -> Any:
        return self._builder.bitcast(self._builder.gep(self._data, [place]), self.pointer)

    def load(self, place: Any) -> Any:
        return self._builder.load(self._at(place), align=8)

    def store(self, vector: Any, place: Any) -> None:
        self._builder.store(vector, self._at(place), align=8)


def _any(builder: Any, vector: Any) -> Any:
    """Whether any word has a bit: 0 or something else, of as many bits as there are lanes."""
    if vector.type == _WORD:
        return builder.zext(builder.icmp_unsigned("!=", vector, _WORD(0)), _WORD)
    some = builder.icmp_unsigned("!=", vector, ir.Constant(_VECTOR, None))
    return builder.zext(builder.bitcast(some, ir.IntType(LANES)), _WORD)


@_intrinsic
def meet(_: Any, out: Any, at: Any, one: Any, i: Any, other: Any, j: Any) -> Any:
    """out[at …] = one[i …] & other[j …]; 0 if nothing is left."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        made, a, b = (_Words(context, builder, signature.args[k], values[k]) for k in (0, 2, 4))
        met = builder.and_(a.load(values[3]), b.load(values[5]))
        made.store(met, values[1])
        return _any(builder, met)

    return types.uint64(out, types.intp, one, types.intp, other, types.intp), emit


@_intrinsic
def common(_: Any, one: Any, i: Any, other: Any, j: Any) -> Any:
    """one[i …] & other[j …]: 0 if there is nothing."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        a, b = (_Words(context, builder, signature.args[k], values[k]) for k in (0, 2))
        return _any(builder, builder.and_(a.load(values[1]), b.load(values[3])))

    return types.uint64(one, types.intp, other, types.intp), emit


def _adder(builder: Any, a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """Three bits of each place as their sum: (ones, twos)."""
    u = builder.xor(a, b)
    return builder.xor(u, c), builder.or_(builder.and_(a, b), builder.and_(u, c))


PLANES = 17
"""Of vertical counters: bit l of every count is in plane l. After them comes one for what leaves the low planes."""
LOW = 6
"""Planes that every eight rows are added to. So 64 rows carry out of them once at most."""


def _place(builder: Any, level: int, offset: Any, words: Any) -> Any:
    """Where a plane has a word."""
    return builder.add(builder.mul(_WORD(level), words), offset)


def _ripple(builder: Any, planes: _Words, carry: Any, levels: range, offset: Any, words: Any) -> Any:
    """Carry over some planes; returns what leaves them."""
    for level in levels:
        place = _place(builder, level, offset, words)
        held = planes.load(place)
        planes.store(builder.xor(held, carry), place)
        carry = builder.and_(held, carry)
    return carry


def _count(builder: Any, x: Sequence[Any], planes: _Words, offset: Any, words: Any) -> None:
    """Count the bits of eight words or vectors: seven adders bring them into the planes of 1, 2 and 4; a carry of 8 goes on."""
    low = [_place(builder, level, offset, words) for level in range(3)]
    one, two, four = (planes.load(place) for place in low)
    one, a = _adder(builder, one, x[0], x[1])
    one, b = _adder(builder, one, x[2], x[3])
    two, e = _adder(builder, two, a, b)
    one, a = _adder(builder, one, x[4], x[5])
    one, b = _adder(builder, one, x[6], x[7])
    two, f = _adder(builder, two, a, b)
    four, carry = _adder(builder, four, e, f)
    for place, value in zip(low, (one, two, four), strict=True):
        planes.store(value, place)
    carry = _ripple(builder, planes, carry, range(3, LOW), offset, words)
    left = _place(builder, PLANES, offset, words)
    planes.store(builder.or_(planes.load(left), carry), left)


def _counting(lanes: int) -> Any:
    """Makes `add` and `carry` for so many words at once."""

    def add(_: Any, lineage: Any, places: Any, planes: Any, offset: Any, words: Any) -> Any:
        """Count the bits of eight rows of `lineage`, which begin at `places` (a tuple), at a word's offset."""

        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            rows = _Words(context, builder, signature.args[0], values[0], lanes)
            held = _Words(context, builder, signature.args[2], values[2], lanes)
            offset, words = values[3], values[4]
            places = [builder.extract_value(values[1], k) for k in range(8)]
            x = [rows.load(builder.add(place, offset)) for place in places]
            _count(builder, x, held, offset, words)
            return context.get_dummy_value()

        return types.void(lineage, places, planes, types.intp, types.intp), emit

    def carry(_: Any, planes: Any, offset: Any, words: Any) -> Any:
        """What has left the low planes goes on to the others; to be done every 64 rows."""

        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            held = _Words(context, builder, signature.args[0], values[0], lanes)
            offset, words = values[1], values[2]
            left = _place(builder, PLANES, offset, words)
            _ripple(builder, held, held.load(left), range(LOW, PLANES), offset, words)
            held.store(ir.Constant(held.pointer.pointee, None if lanes > 1 else 0), left)
            return context.get_dummy_value()

        return types.void(planes, types.intp, types.intp), emit

    return _intrinsic(add), _intrinsic(carry)


add_vectors, carry_vectors = _counting(LANES)
add_words, carry_words = _counting(1)


def _meeting(lanes: int) -> Any:
    """Makes `meet_all` for so many words at once."""

    def meet_all(
        _: Any, tables: Any, at: Any, row: Any, start: Any, offset: Any, planes: Any, words: Any, block: Any,
        filters: Any, lineage: Any, own: Any, alive: Any, keep: Any,
    ) -> Any:  # fmt: skip
        """Let eight rows meet what all filters say of them, at a word's offset, and count the bits that are left.

        What filter f says of row k begins at[f * block + row + k] words behind the address tables[f]. What is left of `start` is counted
        in the planes; to `keep` it, it is written to lineage[own + k * words …], and alive[row + k] tells whether it is anything.
        """

        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            kinds = signature.args
            row, offset, words, block, filters, own = (values[k] for k in (2, 4, 6, 7, 8, 10))
            begin, counted, made = (_Words(context, builder, kinds[k], values[k], lanes) for k in (3, 5, 9))
            bases, places, flags = (
                context.make_array(kinds[k])(context, builder, values[k]).data for k in (0, 1, 11)
            )
            left = [cgutils.alloca_once_value(builder, begin.load(offset)) for _ in range(8)]
            with cgutils.for_range(builder, filters) as loop:
                base = builder.load(builder.gep(bases, [loop.index]))
                base = builder.add(base, builder.shl(offset, _WORD(3)))
                first = builder.add(builder.mul(loop.index, block), row)
                for k, one in enumerate(left):
                    place = builder.load(builder.gep(places, [builder.add(first, _WORD(k))]))
                    address = builder.add(base, builder.shl(builder.zext(place, _WORD), _WORD(3)))
                    said = builder.load(builder.inttoptr(address, begin.pointer), align=8)
                    builder.store(builder.and_(builder.load(one), said), one)
            x = [builder.load(one) for one in left]
            with builder.if_then(builder.icmp_unsigned("!=", values[12], values[12].type(0))):
                for k, one in enumerate(x):
                    made.store(one, builder.add(builder.add(own, builder.mul(_WORD(k), words)), offset))
                    flag = builder.gep(flags, [builder.add(row, _WORD(k))])
                    some = builder.trunc(_any(builder, one), ir.IntType(8))
                    builder.store(builder.or_(builder.load(flag), some), flag)
            _count(builder, x, counted, offset, words)
            return context.get_dummy_value()

        n = types.intp
        return types.void(tables, at, n, start, n, planes, n, n, n, lineage, n, alive, types.boolean), emit

    return _intrinsic(meet_all)


meet_vectors, meet_words = _meeting(LANES), _meeting(1)
