-- penstock run examples/orders.sql --input orders=examples/orders.csv --input returns=examples/returns.jsonl
CREATE STREAM orders  (ts BIGINT, item STRING, qty INT) WATERMARK ts DELAY OF INTERVAL 0;
CREATE STREAM returns (ts BIGINT, item STRING)          WATERMARK ts DELAY OF INTERVAL 0;

CREATE QUERY kept AS
  SELECT item FROM orders [RANGE 100] EXCEPT SELECT item FROM returns [RANGE 100];

CREATE QUERY sold AS
  SELECT item, SUM(qty) AS pieces FROM orders [RANGE 100] GROUP BY item;
