"""`penstock bench standing-queries`: thousands of queries over one stream, and what it takes to add and drop one.

`joins` is what many joins remember. `workload` makes queries and rows, `tables` and `vectors` are what the hand-written programs of `bitmap` are built of, `symbols` is the
workload by equality with its own program, `engine` measures through the public interface, `run` puts everything in turn and judges.
"""
