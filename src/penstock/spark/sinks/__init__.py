"""Where answers go on Spark: files, tables, Kafka, functions."""
