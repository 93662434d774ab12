-- Query 4: the sources seen on both links, distinct before they are joined.
SELECT a.src
FROM (SELECT DISTINCT src FROM link0 [RANGE :window]) AS a,
     (SELECT DISTINCT src FROM link1 [RANGE :window]) AS b
WHERE a.src = b.src
