"""Window shedding: some windows have all their rows, the others none (Tatbul & Zdonik, 2006; "Shed Window Ag" of Works 2013, §5.5.2).

What is answered is always right, and nothing is said of the windows between. Rows are dropped at the source, where it costs nothing.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock_lab.figures.tp.feed import times


def kept(rows: pa.RecordBatch, window: int, every: int) -> pa.RecordBatch:
    """The rows of every so-many-th of the windows that follow each other, (b - window, b] for multiples b of `window` (microseconds)."""
    ends = -(-times(rows) // window)
    return rows.filter(pa.array(np.equal(ends % every, 0)))
