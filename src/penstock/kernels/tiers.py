"""Probes of SteMs whose rows were built out of time order: by rank, not by event time."""

from __future__ import annotations

import numpy as np

from penstock.kernels.hashing import mix
from penstock.kernels.jit import ix, kernel


@kernel
def probe(keys, since, until, seq, begin, key, head, chain, ts, exp, built, out_row, out_slot, tally):
    """Partners of partial results: rows built before the row that drives the partial result, alive together with it.

    `since`, `until`: when a partial result is alive; `seq`: when its driving row was built. `tally[0]` counts the rows looked at,
    once each: what a row costs must not hang on how much room there was. Stops before the first partial result whose partners do not fit;
    returns (partial results done, pairs).
    """
    mask = np.uint64(head.shape[0] - 1)
    room = out_row.shape[0]
    n = 0
    looked = 0
    for i in range(begin, keys.shape[0]):
        k = keys[i]
        mark = n
        before = looked
        s = np.int64(head[ix(mix(k) & mask)])
        while s >= 0:
            looked += 1
            if key[ix(s)] == k and built[ix(s)] < seq[i] and exp[ix(s)] > since[i] and ts[ix(s)] < until[i]:
                if n == room:
                    tally[0] += before
                    return i, mark
                out_row[ix(n)] = i
                out_slot[ix(n)] = s
                n += 1
            s = np.int64(chain[ix(s)])
    tally[0] += looked
    return keys.shape[0], n
