"""GROUP BY over a sample: answers with an error bound (Works 2013, chapter 5)."""
