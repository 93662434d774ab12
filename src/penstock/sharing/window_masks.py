"""The windows of all joins as a walk reads them: whose window still reaches a row of some age.

Windows of a role stand in order of their length, each with the queries whose window is no shorter. So one search by age gives
everybody who still sees a row (Madden et al. 2002, §2.3: windows per query over one SteM).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.operators.grouped_filter.grouped_filter import bit_of
from penstock.sharing.join_catalog import Role
from penstock.types.batch import Array


@dataclass(frozen=True, slots=True)
class Windows:
    """Arrays for `kernels.join.shared_probe`."""

    firsts: Array
    """Per role: where its windows begin."""
    lengths: Array
    masks: Array
    """Per window: queries whose window is no shorter."""
    sight: Array
    """Per SteM: how far back a walk looks."""


def windows(roles: Sequence[Role], stems: Sequence[str], words: int) -> Windows:
    """Of roles over SteMs, for bitmaps of so many words."""
    firsts: list[int] = [0]
    lengths: list[int] = []
    masks: list[Array] = []
    sight = np.zeros(len(stems), np.int64)
    for role in roles:
        bits = sorted(role.windows, key=lambda b: role.windows[b])
        mask = np.zeros(words, np.uint64)
        for bit in bits:
            word, mark = bit_of(bit)
            mask[word] |= mark
        for bit in bits:
            length = role.windows[bit]
            if len(lengths) == firsts[-1] or lengths[-1] != length:
                lengths.append(length)
                masks.append(mask.copy())
            word, mark = bit_of(bit)
            mask[word] &= ~mark
        firsts.append(len(lengths))
        home = stems.index(role.stream)
        sight[home] = max(int(sight[home]), lengths[-1] if bits else 0)
    return Windows(
        np.array(firsts, np.int64),
        np.array(lengths, np.int64),
        np.array(masks, np.uint64).reshape(-1, words),
        sight,
    )
