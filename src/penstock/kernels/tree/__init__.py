"""A tree of joins with partial results on demand (Yang & Papadias 2008)."""
