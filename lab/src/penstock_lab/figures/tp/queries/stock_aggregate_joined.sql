-- Stock Market Aggregate with plain joins: the same means as stock_aggregate.sql (see there why), and nothing but windows below
-- its joins, so that they are part of one core. Where posts about a sector lie further apart than a window is long, a tick is
-- counted once here, too.
SELECT S.sector, AVG(S.price) AS price
FROM stock [RANGE :window MILLISECONDS SLIDE :slide MILLISECONDS] AS S,
     news [RANGE 10 MINUTES SLIDE :slide MILLISECONDS] AS N,
     research [RANGE 15 MINUTES SLIDE :slide MILLISECONDS] AS SR
WHERE S.sector = N.sector AND S.sector = SR.sector
GROUP BY S.sector
LIFESPAN :lifespan MICROSECONDS
RANK 1 CRITERIA (S.owned_by_company AND S.aggressive)
RANK 2 CRITERIA (S.owned_by_company AND S.conservative)
RANK 3 CRITERIA (S.under_evaluation)
