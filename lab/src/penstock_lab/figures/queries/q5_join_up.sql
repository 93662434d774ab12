-- Query 5, the join above the negation (Figure 6, right).
-- Negation here is NOT EXISTS. Figure 6 calls its two plans equal; by multiplicities (Equation 1) they are not: v1 - v2
-- copies joined with n tuples are (v1 - v2) * n results, while below the negation v1 * n joined tuples less v2 are
-- v1 * n - v2. Without multiplicities both plans give the same.
SELECT n.src, n.payload AS payload0, f.payload AS payload2
FROM (SELECT a.src, a.payload FROM link0 [RANGE :window] AS a
      WHERE NOT EXISTS (SELECT 1 FROM link1 [RANGE :window] AS b WHERE b.src = a.src)) AS n,
     link2 [RANGE :window] AS f
WHERE n.src = f.src AND f.protocol = 'ftp'
