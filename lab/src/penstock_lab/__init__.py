"""What Penstock is measured by and compared with; the engine needs none of it.

`figures`     the papers' figures, drawn anew, each with a verdict computed from its data
`benchmarks`  the engine against hand-written programs and other engines, in one run
`reference`   the hand-written programs, one query each
`baselines`   other ways to run many queries or to shed load, from the papers
`searches`    the papers' optimisers that the engine does not use, and exhaustive ones as their oracle
`cli`         `penstock bench` and `penstock figure`, which `penstock` finds by entry point
"""
