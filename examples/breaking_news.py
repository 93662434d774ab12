"""News breaks: posts about many businesses at once, far more than can be joined in time; those about our own investments go first.

Its data come from penstock-lab: `pip install ./lab`.
"""

import penstock
from penstock_lab.figures.tp import market, queries
from penstock_lab.figures.tp.load import Load

# Ticks of 500 stocks, of which 23 have rank 1: aggressive investments of our own. Posts come five a second, and 300 while news breaks;
# one of seven is about a business that matters to us.
news = Load(5.0, burst=60.0, every=40.0, lasts=4.0)
made = market.make(seconds=40, streams=("news", "blogs"), posts=news, promising=0.15, each=23)


def told(**options: object) -> dict[int, list[dict[str, object]]]:
    """Answers by rank; 0 is none."""
    s = penstock.connect(**options)
    s.execute(market.declarations(("news", "blogs")))
    posted = s.query(queries.stock_join(joins=2, window=20_000, lifespan=2_680), name="posted")
    found: dict[int, list[dict[str, object]]] = {rank: [] for rank in (1, 2, 3, 0)}
    for until, rows in made.feed.pushes(every=0.2):
        for stream, batch in rows.items():
            s.push(stream, batch)
        s.advance(until)
        for row in posted.changes().to_pylist():
            found[row["__rank"] or 0].append(row)
    return found


whole = told()
print("answers in time:          all   fifo  prefer")
fifo, prefer = (told(budget=268, allocation=name) for name in ("fifo", "prefer"))
for rank, rows in whole.items():
    print(f"rank {rank or '-'}: {len(rows):>20,} {len(fifo[rank]):>6,} {len(prefer[rank]):>7,}")
for row in prefer[1][:3]:
    print(f"rank 1: {row['symbol']} ({row['company']}) at {row['price']}")
