-- Query 1: connections by ftp from one source on two links.
SELECT a.src, a.payload AS payload0, b.payload AS payload1
FROM link0 [RANGE :window] AS a, link1 [RANGE :window] AS b
WHERE a.src = b.src AND a.protocol = 'ftp' AND b.protocol = 'ftp'
