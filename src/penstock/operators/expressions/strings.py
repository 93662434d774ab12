"""String functions: on codes where bytes suffice, else once per distinct string and remembered by code.

Characters are Unicode code points; `trim` and its kin cut spaces only; `substring` counts from 1, from the
end if negative, and a negative length gives the empty string.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.operators.expressions.compiled import (
    Builder,
    Pair,
    Part,
    RowError,
    Run,
    alike,
    both,
    spread,
    strict,
)
from penstock.plan.expressions import Call, Literal
from penstock.state.strings import Codes, Strings
from penstock.types import limits
from penstock.types.batch import Array, Column, Mask

_FAR = 2**40
"""Longer than any string: keeps sums of positions from wrapping."""


class PerCode:
    """A function of one string, computed once per code; forgotten when the pool is swept."""

    def __init__(
        self, strings: Strings, dtype: np.dtype[np.generic], compute: Callable[[Codes], Column]
    ) -> None:
        self._strings = strings
        self._compute = compute
        self._epoch = strings.epoch
        self._results = np.zeros(64, dtype)
        self._known = np.zeros(64, np.int8)  # 0: not computed, 1: value, 2: NULL
        self._partial = False

    def __call__(self, codes: Codes, valid: Mask | None) -> Pair:
        strings = self._strings
        if self._epoch != strings.epoch:
            self._epoch = strings.epoch
            self._known.fill(0)
        if len(self._known) < strings.capacity:
            more = 2 * strings.capacity - len(self._known)
            self._known = np.concatenate([self._known, np.zeros(more, np.int8)])
            self._results = np.concatenate([self._results, np.zeros(more, self._results.dtype)])
        known = self._known.take(codes, mode="clip")
        missing = known == 0
        if valid is not None:
            missing &= valid
        if missing.any():
            fresh = np.unique(codes[missing])
            column = self._compute(fresh)
            self._results[fresh] = column.values
            self._known[fresh] = 1 if column.valid is None else np.where(column.valid, 1, 2)
            self._partial |= column.valid is not None
            known = self._known.take(codes, mode="clip")
        results = self._results.take(codes, mode="clip")
        if self._partial and (known == 2).any():
            valid = known == 1 if valid is None else valid & (known == 1)
        return results, valid


def per_code(part: Part, function: PerCode) -> Run:
    inner = part.run

    def run(columns: Sequence[Column], rows: int) -> Pair:
        return function(*inner(columns, rows))

    return run


def like_pattern(pattern: str, escape: str | None) -> str:
    """The RE2 expression of a LIKE pattern. Without ESCAPE no character escapes, as the standard says."""
    out = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character == escape:
            position += 1
            if position == len(pattern):
                return r"[^\x00-\x{10FFFF}]"  # nothing to escape: matches nothing
            out.append(_quoted(pattern[position]))
        elif character == "%":
            out.append(".*")
        elif character == "_":
            out.append(".")
        else:
            out.append(_quoted(character))
        position += 1
    return r"(?s)\A" + "".join(out) + r"\z"


def _quoted(character: str) -> str:
    return character if character.isalnum() or ord(character) > 127 else f"\\x{ord(character):02x}"


def _text(part: Part, strings: Strings) -> str | None:
    """The text of a constant part."""
    if part.constant is None or part.constant[1] is not None:
        return None
    return strings.text(int(part.constant[0][0]))


_UNARY: dict[str, Callable[[pa.StringArray], pa.StringArray]] = {
    "upper": pc.utf8_upper,
    "lower": pc.utf8_lower,
    "trim": lambda a: pc.utf8_trim(a, " "),
    "ltrim": lambda a: pc.utf8_ltrim(a, " "),
    "rtrim": lambda a: pc.utf8_rtrim(a, " "),
}
_MODES = {"starts_with": 0, "ends_with": 1, "contains": 2}


class Texts:
    """Builders over one pool."""

    def __init__(self, strings: Strings) -> None:
        self._strings = strings

    def builders(self) -> dict[str, Builder]:
        return {
            **dict.fromkeys(_UNARY, self._unary),
            **dict.fromkeys(_MODES, self._search),
            **dict.fromkeys(("||", "concat"), self._concat),
            "like": self._like,
            "length": self._length,
            "substring": self._substring,
            "left": self._left,
            "right": self._right,
            "replace": self._replace,
        }

    def _codes(self, compute: Callable[[pa.StringArray], pa.StringArray]) -> PerCode:
        strings = self._strings
        return PerCode(strings, np.dtype(np.int32), lambda a: strings.encode(compute(strings.decode(a))))

    def _unary(self, call: Call, parts: Sequence[Part]) -> Run:
        return per_code(parts[0], self._codes(_UNARY[call.function]))

    def _like(self, call: Call, parts: Sequence[Part]) -> Run:
        pattern = call.arguments[1]
        escape = call.arguments[2] if len(call.arguments) == 3 else None
        assert isinstance(pattern, Literal) and isinstance(pattern.value, str)
        letter = escape.value if isinstance(escape, Literal) and isinstance(escape.value, str) else None
        expression = like_pattern(pattern.value, letter)

        def compute(codes: Codes) -> Column:
            return Column(_flags(pc.match_substring_regex(self._strings.decode(codes), expression)))

        return per_code(parts[0], PerCode(self._strings, np.dtype(np.bool_), compute))

    def _search(self, call: Call, parts: Sequence[Part]) -> Run:
        mode, strings = _MODES[call.function], self._strings
        return strict(
            parts, lambda a, b: strings.search(mode, np.ascontiguousarray(a), np.ascontiguousarray(b))
        )

    def _length(self, _: Call, parts: Sequence[Part]) -> Run:
        strings = self._strings
        return strict(parts, lambda a: strings.lengths(np.ascontiguousarray(a)))

    def _cutting(self, parts: Sequence[Part], bounds: Callable[..., tuple[Array, Array]]) -> Run:
        """Bounds get the lengths (characters) and the numeric arguments, all as columns."""
        strings = self._strings

        def function(codes: Array, *numbers: Array) -> Array:
            rows = max(len(codes), *(len(n) for n in numbers)) if len(codes) else 0
            if any(len(n) == 0 for n in numbers):
                rows = 0
            codes = np.ascontiguousarray(spread(codes, rows))
            clipped = [np.clip(spread(n, rows), -_FAR, _FAR) for n in numbers]
            begins, ends = bounds(strings.lengths(codes), *clipped)
            return strings.cut(codes, np.maximum(begins, 0), np.maximum(ends, 0))

        if parts[0].constant is None and all(p.constant is not None for p in parts[1:]):
            fixed = [p.constant[0] for p in parts[1:] if p.constant is not None]
            memo = PerCode(strings, np.dtype(np.int32), lambda codes: Column(function(codes, *fixed)))
            return per_code(parts[0], memo)
        return strict(parts, function)

    def _substring(self, _: Call, parts: Sequence[Part]) -> Run:
        def bounds(length: Array, start: Array, count: Array | None = None) -> tuple[Array, Array]:
            begins = np.where(start < 0, length + start, start - 1)
            return begins, length if count is None else begins + np.maximum(count, 0)

        return self._cutting(parts, bounds)

    def _left(self, _: Call, parts: Sequence[Part]) -> Run:
        return self._cutting(parts, lambda n, k: (np.zeros_like(n), np.where(k < 0, n + k, k)))

    def _right(self, _: Call, parts: Sequence[Part]) -> Run:
        return self._cutting(parts, lambda n, k: (np.where(k < 0, -k, n - k), n))

    def _concat(self, call: Call, parts: Sequence[Part]) -> Run:
        strings = self._strings
        moving = [p for p in parts if p.constant is None]
        if len(moving) == 1:
            at = parts.index(moving[0])
            before = "".join(_text(p, strings) or "" for p in parts[:at])
            after = "".join(_text(p, strings) or "" for p in parts[at + 1 :])
            memo = self._codes(lambda a: pc.binary_join_element_wise(before, a, after, ""))
            added = len((before + after).encode())
            return self._bounded(call, moving, lambda codes: strings.sizes(codes) + added, memo)

        def function(*arguments: Array) -> Array:
            rows = 0 if any(len(a) == 0 for a in arguments) else max(len(a) for a in arguments)
            texts = [strings.decode(spread(a, rows)) for a in arguments]
            return strings.encode(pc.binary_join_element_wise(*texts, "")).values

        def size(*arguments: Array) -> Array:
            return sum((strings.sizes(a) for a in arguments), np.zeros(1, np.int64))

        return self._bounded(call, parts, size, function)

    def _replace(self, call: Call, parts: Sequence[Part]) -> Run:
        strings = self._strings
        old, new = _text(parts[1], strings), _text(parts[2], strings)
        if old is not None and new is not None:
            if not old:
                return parts[0].run
            more = len(new.encode()) - len(old.encode())
            memo = self._codes(lambda a: pc.replace_substring(a, pattern=old, replacement=new))
            if more <= 0:
                return per_code(parts[0], memo)

            def count(codes: Codes) -> Column:
                found = pc.count_substring(strings.decode(codes), old)
                return Column(strings.sizes(codes) + more * found.to_numpy().astype(np.int64))

            counted = PerCode(strings, np.dtype(np.int64), count)
            return self._bounded(call, parts[:1], lambda codes: counted(codes, None)[0], memo)

        def distinct(arguments: Sequence[Array]) -> tuple[list[list[str]], Array]:
            rows = max(len(a) for a in arguments)
            table = np.stack([spread(a, rows) for a in arguments])
            values, inverse = np.unique(table, axis=1, return_inverse=True)
            return [strings.decode(row).to_pylist() for row in values], inverse.ravel()

        def function(*arguments: Array) -> Array:
            if any(len(a) == 0 for a in arguments):
                return np.zeros(0, np.int32)
            texts, inverse = distinct(arguments)
            made = [t.replace(o, n) if o else t for t, o, n in zip(*texts, strict=True)]
            return strings.encode(pa.array(made, pa.string())).values.take(inverse)

        def size(*arguments: Array) -> Array:
            texts, inverse = distinct(arguments)
            sizes = [
                len(t) + (t.count(o) * (len(n) - len(o)) if o else 0) for t, o, n in zip(*texts, strict=True)
            ]
            return np.array(sizes, np.int64)[inverse]

        return self._bounded(call, parts, size, function)

    def _bounded(
        self,
        call: Call,
        parts: Sequence[Part],
        size: Callable[..., Array],
        make: PerCode | Callable[..., Array],
    ) -> Run:
        """What makes texts, refused on a row whose text would be too long. `size`: its bytes, by codes."""
        first = [next(k for k, q in enumerate(parts) if alike(q.expression, p.expression)) for p in parts]

        def run(columns: Sequence[Column], rows: int) -> Pair:
            known = {k: parts[k].run(columns, rows) for k in dict.fromkeys(first)}
            pairs = [known[k] for k in first]
            values = [np.ascontiguousarray(codes) for codes, _ in pairs]
            valid: Mask | None = None
            for _, mask in pairs:
                valid = both(valid, mask)
            if all(map(len, values)):
                self._check(call, size(*values), valid, columns, rows)
            return make(values[0], valid) if isinstance(make, PerCode) else (make(*values), valid)

        return run

    def _check(
        self, call: Call, sizes: Array, valid: Mask | None, columns: Sequence[Column], rows: int
    ) -> None:
        long = sizes > limits.TEXT_BYTES
        if valid is not None:
            long = long & valid
        if not long.any():
            return
        row = int(np.argmax(long))
        most = limits.TEXT_BYTES >> 20
        raise RowError(
            f"{call.function} would make a text of {int(sizes[min(row, len(sizes) - 1)]):,} bytes, more than {most} MiB",
            columns,
            row if len(long) == rows else None,
            rows,
            hint="cut what grows with left(…), or keep its parts in columns of their own",
        )


def _flags(answer: pa.BooleanArray) -> Mask:
    return np.asarray(answer.to_numpy(zero_copy_only=False), np.bool_)
