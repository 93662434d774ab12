"""Stocks whose business is posted about, those that matter first; and the mean price of each sector in the news.

Its data come from penstock-lab: `pip install ./lab`.
"""

import penstock
from penstock_lab.figures.tp import market, queries

made = market.make("DS1", seconds=60, streams=("news", "research", "blogs"))
s = penstock.connect()
s.execute(market.declarations(("news", "research", "blogs")))
means = s.query(queries.stock_aggregate(), name="means")
posted = s.query(queries.stock_join(), name="posted")
print(f"{len(posted.ranks)} ranks: aggressive, conservative, under evaluation")

levels = dict(zip(made.stocks.symbol.to_pylist(), made.stocks.level.tolist(), strict=True))
told = [0, 0, 0, 0]
first = {}
for until, rows in made.feed.pushes(every=5):
    for stream, batch in rows.items():
        s.push(stream, batch)
    s.advance(until)
    for row in posted.changes().to_pylist():
        rank = levels[row["symbol"]]  # 0: no criterion holds
        told[rank] += 1
        first.setdefault(rank, row)

for rank, row in sorted(first.items(), key=lambda one: one[0] or 4):
    print(
        f"rank {rank or '-'}: {told[rank]:,} answers, the first: {row['symbol']} ({row['company']}) at {row['price']}"
    )
for row in sorted(means.snapshot().to_pylist(), key=lambda row: row["sector"]):
    print(f"{row['sector']}: {row['price']:.2f}")
