-- Stock Market Aggregate: the mean price by sector, of the sectors in recent news and in recent research.
-- contains(S.sector, News[10 min]) asks whether a sector is among those of the news; it does not pair a stock with every post.
-- Joined post by post, a sector with n posts and r papers would count each tick n * r times. The mean would not change, since
-- at any instant all ticks of a sector are counted equally often; counts, sums and the samples that reliability is judged by
-- would. So each sector is taken once. All windows slide together: what is told is told of whole windows.
SELECT S.sector, AVG(S.price) AS price
FROM stock [RANGE :window MILLISECONDS SLIDE :slide MILLISECONDS] AS S,
     (SELECT DISTINCT sector FROM news [RANGE 10 MINUTES SLIDE :slide MILLISECONDS]) AS N,
     (SELECT DISTINCT sector FROM research [RANGE 15 MINUTES SLIDE :slide MILLISECONDS]) AS SR
WHERE S.sector = N.sector AND S.sector = SR.sector
GROUP BY S.sector
LIFESPAN :lifespan MICROSECONDS
RANK 1 CRITERIA (S.owned_by_company AND S.aggressive)
RANK 2 CRITERIA (S.owned_by_company AND S.conservative)
RANK 3 CRITERIA (S.under_evaluation)
