"""Value → group id: a chained hash table over rows of 64-bit words, with ids given back and reused."""

from __future__ import annotations

import numpy as np

from penstock.kernels.hashing import mix
from penstock.kernels.jit import kernel


@kernel
def bucket(words, row, mask):
    h = mix(words[row, 0])
    for k in range(1, words.shape[1]):
        h = mix(h ^ np.uint64(words[row, k]))
    return np.int64(h & np.uint64(mask))


@kernel
def find_or_add(words, start, gids, fresh, head, chain, keys, free, registers):
    """Give each row of `words` its group id, from `start` on; stops where no free id is left.

    registers[0] = number of free ids (a stack in `free`), registers[1] = number of new values, whose first
    rows are listed in `fresh`.
    """
    mask = head.shape[0] - 1
    width = words.shape[1]
    for i in range(start, words.shape[0]):
        b = bucket(words, i, mask)
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
            if registers[0] == 0:
                return i
            registers[0] -= 1
            g = free[registers[0]]
            for k in range(width):
                keys[g, k] = words[i, k]
            chain[g] = head[b]
            head[b] = g
            fresh[registers[1]] = i
            registers[1] += 1
        gids[i] = g
    return words.shape[0]


@kernel
def find_or_add_word(words, start, gids, fresh, head, chain, keys, free, registers):
    """`find_or_add` for values of one word, the common case: no loop over words."""
    mask = np.uint64(head.shape[0] - 1)
    for i in range(start, words.shape[0]):
        word = words[i, 0]
        b = mix(word) & mask
        g = head[b]
        while g >= 0 and keys[g, 0] != word:
            g = chain[g]
        if g < 0:
            if registers[0] == 0:
                return i
            registers[0] -= 1
            g = free[registers[0]]
            keys[g, 0] = word
            chain[g] = head[b]
            head[b] = g
            fresh[registers[1]] = i
            registers[1] += 1
        gids[i] = g
    return words.shape[0]


@kernel
def release(gids, head, chain, keys, free, registers):
    """Forget these values; their ids may be given to others."""
    mask = head.shape[0] - 1
    for i in range(gids.shape[0]):
        g = gids[i]
        b = bucket(keys, g, mask)
        at = head[b]
        if at == g:
            head[b] = chain[g]
        else:
            while chain[at] != g:
                at = chain[at]
            chain[at] = chain[g]
        chain[g] = -2
        free[registers[0]] = g
        registers[0] += 1


@kernel
def rehash(head, chain, keys, size):
    """Link all ids below `size` that are in use (chain != -2) into a fresh table."""
    mask = head.shape[0] - 1
    head[:] = -1
    for g in range(size):
        if chain[g] != -2:
            b = bucket(keys, g, mask)
            chain[g] = head[b]
            head[b] = g
