-- Query 1: connections by telnet from one source on two links.
SELECT a.src, a.payload AS payload0, b.payload AS payload1
FROM link0 [RANGE :window] AS a, link1 [RANGE :window] AS b
WHERE a.src = b.src AND a.protocol = 'telnet' AND b.protocol = 'telnet'
