"""Value → group id: a chained hash table over rows of 64-bit words, with ids given back and reused."""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import inline, ix, kernel
from penstock.kernels.hash.mix import mix, spread

FREE, NEW, SHIFT = 0, 1, 2
"""Registers: number of free ids, number of new values, `shift` of the table's size."""


@inline
def bucket(words, row, shift):
    h = np.uint64(words[row, 0])
    for k in range(1, words.shape[1]):
        h = mix(h) ^ np.uint64(words[row, k])
    return spread(h, shift)


@kernel
def find_or_add(words, start, gids, fresh, head, chain, keys, free, registers):
    """Give each row of `words` its group id, from `start` on; stops where no free id is left.

    `free` is a stack of ids; the first rows of new values are listed in `fresh`.
    """
    width = words.shape[1]
    for i in range(start, words.shape[0]):
        b = bucket(words, i, registers[SHIFT])
        g = head[b]
        while g >= 0:
            same = True
            for k in range(width):
                if keys[g, k] != words[i, k]:
                    same = False
                    break
            if same:
                break
            g = chain[g]
        if g < 0:
            if registers[FREE] == 0:
                return i
            registers[FREE] -= 1
            g = free[registers[FREE]]
            for k in range(width):
                keys[g, k] = words[i, k]
            chain[g] = head[b]
            head[b] = g
            fresh[registers[NEW]] = i
            registers[NEW] += 1
        gids[i] = g
    return words.shape[0]


@kernel
def find_or_add_word(words, start, gids, fresh, head, chain, keys, free, registers):
    """`find_or_add` for values of one word, the common case: no loop over words."""
    shift = registers[SHIFT]
    for i in range(start, words.shape[0]):
        word = words[i, 0]
        b = spread(word, shift)
        g = head[b]
        while g >= 0 and keys[ix(g), 0] != word:
            g = chain[g]
        if g < 0:
            if registers[FREE] == 0:
                return i
            registers[FREE] -= 1
            g = free[registers[FREE]]
            keys[g, 0] = word
            chain[g] = head[b]
            head[b] = g
            fresh[registers[NEW]] = i
            registers[NEW] += 1
        gids[i] = g
    return words.shape[0]


@kernel
def release(gids, head, chain, keys, free, registers):
    """Forget these values; their ids may be given to others."""
    for i in range(gids.shape[0]):
        g = gids[i]
        b = bucket(keys, g, registers[SHIFT])
        at = head[b]
        if at == g:
            head[b] = chain[g]
        else:
            while chain[at] != g:
                at = chain[at]
            chain[at] = chain[g]
        chain[g] = -2
        free[registers[FREE]] = g
        registers[FREE] += 1


@kernel
def rehash(head, chain, keys, registers, size):
    """Link all ids below `size` that are in use (chain != -2) into a fresh table."""
    head[:] = -1
    for g in range(size):
        if chain[g] != -2:
            b = bucket(keys, g, registers[SHIFT])
            chain[g] = head[b]
            head[b] = g
