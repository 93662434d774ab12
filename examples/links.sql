-- Two outgoing links and a third: who sends on the first and not on the second, and what of theirs the third sees of ftp.
CREATE STREAM link0 (ts BIGINT, protocol STRING, src INT, dst INT) WATERMARK ts DELAY OF INTERVAL 0;
CREATE STREAM link1 (ts BIGINT, protocol STRING, src INT, dst INT) WATERMARK ts DELAY OF INTERVAL 0;
CREATE STREAM link2 (ts BIGINT, protocol STRING, src INT, dst INT) WATERMARK ts DELAY OF INTERVAL 0;

CREATE QUERY only_here AS
  SELECT a.src, c.dst
  FROM link0 [RANGE 2000] AS a JOIN link2 [RANGE 2000] AS c ON a.src = c.src
  WHERE c.protocol = 'ftp'
    AND NOT EXISTS (SELECT 1 AS one FROM link1 [RANGE 2000] AS b WHERE b.src = a.src);
