"""Benchmarks on Spark: Penstock and Spark's own operators over the same files, in one session.

files.py               rows as parquet files, one file a stream and micro-batch
runs.py                what a streaming query took batch by batch, and sums over what it gave
joins.py               the joins, in both languages
native.py              Spark's own join and its settings
successive_halving.py  the fastest of many settings
flows.py               the same join as a Penstock flow
join.py                spark-join: the two compared
steps.py               the cost of a small micro-batch
queries.py             spark-queries: many selections in one flow
ranks.py               spark-ranks: ranks and a budget that is never spent
"""
