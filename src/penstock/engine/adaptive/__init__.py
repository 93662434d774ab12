"""Statistics of running queries, and plans that replace others as data change."""
