"""RANK … COVER: some row of every object is processed in every period (Works 2013, §9.3)."""
