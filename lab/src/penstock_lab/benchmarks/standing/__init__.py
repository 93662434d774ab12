"""`penstock bench standing-queries`: thousands of queries over one stream, and what adding and dropping one takes.

workload.py  queries and rows
engine.py    the engine through its public interface
symbols.py   queries by equality, with a hand-written program of their own
joins.py     the memory of many joins
run.py       everything in turn, and the verdict

The hand-written programs for ranges are in `penstock_lab.reference.bitmap`.
"""
