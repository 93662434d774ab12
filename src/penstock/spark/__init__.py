"""The engine on Spark: sources, sinks, shuffles, offsets and scheduling are Spark's; every cell is the embedded engine.

A flow is one Spark query. Each micro-batch is one *step*: rows are routed to cells by one exchange, `mapInArrow` hands
them to the cells' hosts, which log them, apply them and lay their changes down; then the sinks read what was laid down.
Rows in parquet files do not travel: Spark says which files are new, and hosts read them.

    store.py    the checkpoint directory: declarations, steps, input log, results, late rows
    layout.py   columns of several streams in one frame
    folders.py  streams that are folders of files: which are new
    files.py    what a cell reads of them
    hashed.py   which rows are a cell's
    cell.py     one cell: engine, log, rebuild
    host.py     the process a cell lives in, and how tasks talk to it
    flow.py     the driver's side of a step
    sinks.py    where answers go
    handle.py   what `start` gives back
"""
