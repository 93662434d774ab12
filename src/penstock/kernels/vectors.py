"""Words of bitmaps, eight at a time.

LLVM does not turn loops over words into vector instructions where it cannot see that arrays are apart, and here it cannot.
Each function works on `LANES` words of arrays taken as flat, at given places.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

LANES = 8
"""512 bits; where the machine has less, one instruction becomes several."""

_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(_WORD, LANES)
_intrinsic: Any = intrinsic


class _Words:
    """Vectors of an array, whatever its shape."""

    def __init__(self, context: Any, builder: Any, kind: Any, array: Any) -> None:
        self._builder = builder
        self._data = context.make_array(kind)(context, builder, array).data

    def _at(self, place: Any) -> Any:
        return self._builder.bitcast(self._builder.gep(self._data, [place]), _VECTOR.as_pointer())

    def load(self, place: Any) -> Any:
        return self._builder.load(self._at(place), align=8)

    def store(self, vector: Any, place: Any) -> None:
        self._builder.store(vector, self._at(place), align=8)


def _any(builder: Any, vector: Any) -> Any:
    """Whether any word has a bit: 0 or something else."""
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


@_intrinsic
def add(_: Any, lineage: Any, places: Any, planes: Any, offset: Any, words: Any) -> Any:
    """Count the bits of eight rows of `lineage`, which begin at `places` (a tuple), in the planes of ones, twos, fours,
    eights and so on, `words` apart, at a word's offset."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        rows = _Words(context, builder, signature.args[0], values[0])
        held = _Words(context, builder, signature.args[2], values[2])
        offset, words = values[3], values[4]
        places = [builder.extract_value(values[1], k) for k in range(8)]
        x = [rows.load(builder.add(place, offset)) for place in places]
        levels = [builder.add(builder.mul(_WORD(k), words), offset) for k in range(8)]
        one, two, four = (held.load(levels[k]) for k in range(3))
        one, a = _adder(builder, one, x[0], x[1])
        one, b = _adder(builder, one, x[2], x[3])
        two, e = _adder(builder, two, a, b)
        one, a = _adder(builder, one, x[4], x[5])
        one, b = _adder(builder, one, x[6], x[7])
        two, f = _adder(builder, two, a, b)
        four, carry = _adder(builder, four, e, f)
        for level, low in enumerate((one, two, four)):
            held.store(low, levels[level])
        for level in levels[3:]:
            old = held.load(level)
            held.store(builder.xor(old, carry), level)
            carry = builder.and_(old, carry)
        return context.get_dummy_value()

    return types.void(lineage, places, planes, types.intp, types.intp), emit
