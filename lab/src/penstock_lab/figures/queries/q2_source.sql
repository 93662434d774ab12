-- Query 2: the sources seen on a link.
SELECT DISTINCT src FROM link0 [RANGE :window]
