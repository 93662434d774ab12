"""Grouped filters over many queries, and lineage bitmaps."""
