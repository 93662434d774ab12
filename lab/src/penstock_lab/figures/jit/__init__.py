"""Figures 10 to 17 of Yang and Papadias (2008): what partial results on demand save."""
