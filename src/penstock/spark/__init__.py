"""The engine on Spark: sources, sinks, shuffles, offsets and scheduling are Spark's; every cell is the embedded engine.

A flow is one Spark query. Each micro-batch is one *step*: rows are routed to partitions by one exchange, `mapInArrow` hands
them to the partitions' worker processes, which log them, apply them and write their changes; then the sinks read these.
Rows in parquet files do not travel: Spark says which files are new, and worker processes read them.

    driver.py            decides and runs steps
    checkpoint.py        the checkpoint directory: declarations, steps, input log, results, late rows
    shuffle.py           the partition of every row, as an expression of Spark's
    union_layout.py      columns of several streams in one frame
    parquet_folders.py   streams that are folders of files: which are new
    parquet_reader.py    what a partition reads of them
    partition_filter.py  which rows are a partition's
    partition.py         one partition: engine, input log, recovery
    worker_process.py    the process a partition lives in, and how tasks talk to it
    sinks/               where answers go
    handle.py            what `start` returns
"""
