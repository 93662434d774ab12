"""What operators remember: flat arrays in an arena, chosen by update pattern.

`Stem` holds a FIFO edge for probing; `Roster` holds the live rows of any edge and tells when each ends;
`Registry` numbers values; `Calendar` schedules; `View` is a query's answer; `file` lays arrays down for good.
"""
