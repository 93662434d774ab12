-- stock_aggregate_joined.sql, and beside each mean how many ticks of each level it is made of, and their sum: whatever part of
-- the ticks is processed, it can be told which levels it has, and what the mean of any of them is.
SELECT S.sector, AVG(S.price) AS price,
       SUM(CASE WHEN S.owned_by_company AND S.aggressive THEN 1 ELSE 0 END) AS count1,
       SUM(CASE WHEN S.owned_by_company AND S.conservative THEN 1 ELSE 0 END) AS count2,
       SUM(CASE WHEN S.under_evaluation AND NOT S.owned_by_company THEN 1 ELSE 0 END) AS count3,
       SUM(CASE WHEN S.under_evaluation OR S.owned_by_company THEN 0 ELSE 1 END) AS count4,
       SUM(CASE WHEN S.owned_by_company AND S.aggressive THEN S.price ELSE 0.0 END) AS total1,
       SUM(CASE WHEN S.owned_by_company AND S.conservative THEN S.price ELSE 0.0 END) AS total2,
       SUM(CASE WHEN S.under_evaluation AND NOT S.owned_by_company THEN S.price ELSE 0.0 END) AS total3,
       SUM(CASE WHEN S.under_evaluation OR S.owned_by_company THEN 0.0 ELSE S.price END) AS total4
FROM stock [RANGE :window MILLISECONDS SLIDE :slide MILLISECONDS] AS S,
     news [RANGE 10 MINUTES SLIDE :slide MILLISECONDS] AS N,
     research [RANGE 15 MINUTES SLIDE :slide MILLISECONDS] AS SR
WHERE S.sector = N.sector AND S.sector = SR.sector
GROUP BY S.sector
LIFESPAN :lifespan MICROSECONDS
RANK 1 CRITERIA (S.owned_by_company AND S.aggressive)
RANK 2 CRITERIA (S.owned_by_company AND S.conservative)
RANK 3 CRITERIA (S.under_evaluation)
