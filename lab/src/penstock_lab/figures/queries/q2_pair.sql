-- Query 2, second variant: who talks to whom on a link.
SELECT DISTINCT src, dst FROM link0 [RANGE :window]
