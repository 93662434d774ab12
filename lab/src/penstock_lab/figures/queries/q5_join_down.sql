-- Query 5, the join below the negation (Figure 6, left). See q5_join_up.sql for why negation is NOT EXISTS.
SELECT j.src, j.payload0, j.payload2
FROM (SELECT a.src, a.payload AS payload0, f.payload AS payload2
      FROM link0 [RANGE :window] AS a, link2 [RANGE :window] AS f
      WHERE a.src = f.src AND f.protocol = 'ftp') AS j
WHERE NOT EXISTS (SELECT 1 FROM link1 [RANGE :window] AS b WHERE b.src = j.src)
