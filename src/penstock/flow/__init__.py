"""Between queries: what they share, how rows are routed, what is done first. Empty while every query runs alone."""
