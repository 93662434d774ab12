"""SQL in, plans and places out."""
