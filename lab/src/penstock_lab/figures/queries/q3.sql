-- Query 3: negation of two links on the source, by multiplicities (Equation 1).
SELECT src FROM link0 [RANGE :window]
EXCEPT ALL
SELECT src FROM link1 [RANGE :window]
