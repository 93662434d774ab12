"""Prioritised processing: the data and queries of Works' dissertation (2013), chapters 4 to 6."""
