"""Prisoners under home arrest: who is where he should not be, and which officer is near; when there is too much, the dangerous first.

Its data come from penstock-lab: `pip install ./lab`.
"""

import penstock
from penstock_lab.figures.tp import city, queries

made = city.make("5-10-15", seconds=60)
s = penstock.connect(budget=5_000, allocation="promote")  # work units a step: not enough for all
s.execute(city.DECLARATIONS)
s.update_table("prisonerInfo", insert=made.info[0][1])
sql = queries.home_arrest(levels=3, lifespan=10_000)
watched = "COVER EVERY 10 SECONDS BY PL.prisonerid"  # of the most dangerous nobody is to be forgotten
near = s.query(sql.replace("RANK 2", f"{watched}\nRANK 2"), name="near")
print(near.sql)
print(f"{len(near.ranks)} ranks; answers are of use for {(near.lifespan or 0) // 1000} ms")

told = [0, 0, 0, 0]
first = {}
for until, rows in made.feed.pushes(every=1):
    for stream, batch in rows.items():
        s.push(stream, batch)
    s.advance(until)
    for row in near.changes().to_pylist():
        rank = row["__rank"] or 0  # NULL: no criterion holds
        told[rank] += 1
        first.setdefault(rank, row)

for rank, row in sorted(first.items(), key=lambda one: one[0] or 4):
    print(
        f"rank {rank or '-'}: {told[rank]:,} answers, the first: prisoner {row['prisonerid']}"
        f" at ({row['x']:.2f}, {row['y']:.2f}), officer {row['officerid']}"
    )
for one in near.load["ranks"]:
    print(
        f"expired, {'rank ' + str(one['rank']) if one['rank'] else 'no rank known'}: {one['expired']:,} rows"
    )
print(f"{sum(told):,} answers")
(rounds,) = near.load["coverage"]
print(f"{watched}: {rounds['periods']} times, {rounds['covered']:,} seen, {rounds['missed']:,} missed")
