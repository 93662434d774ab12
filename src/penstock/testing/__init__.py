"""A cluster in one process, for tests of partitioned queries."""
