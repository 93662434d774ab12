"""What users touch: the session, the command line, the benchmarks."""
