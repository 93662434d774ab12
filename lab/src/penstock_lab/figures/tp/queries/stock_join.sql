-- Stock Market Join: stocks whose business is in the news and in blogs. With the first two joins it is the dissertation's
-- query; four and eight read more streams of posts (Figure 6.7).
SELECT S.company, S.symbol, S.price
FROM stock AS S
JOIN news AS P1 ON S.subsector = P1.subsector
JOIN blogs AS P2 ON S.subsector = P2.subsector
JOIN news2 AS P3 ON S.subsector = P3.subsector
JOIN blogs2 AS P4 ON S.subsector = P4.subsector
JOIN news3 AS P5 ON S.subsector = P5.subsector
JOIN blogs3 AS P6 ON S.subsector = P6.subsector
JOIN news4 AS P7 ON S.subsector = P7.subsector
JOIN blogs4 AS P8 ON S.subsector = P8.subsector
WINDOW :window MILLISECONDS
LIFESPAN :lifespan MICROSECONDS
RANK 1 CRITERIA (S.owned_by_company AND S.aggressive)
RANK 2 CRITERIA (S.owned_by_company AND S.conservative)
RANK 3 CRITERIA (S.under_evaluation)
