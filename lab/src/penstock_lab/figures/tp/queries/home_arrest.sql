-- Home Arrest: prisoners at an improper place, and the officers within three miles of them.
-- Miles along the streets' axes are x and y; a distance of three is a square of nine. Ranks 1 to 3 are the dissertation's
-- (Table 1.1), those beyond are for Figure 4.7.
SELECT PL.prisonerid, PL.x, PL.y, OL.officerid
FROM prisonerLocation AS PL, prisonerInfo AS PI, officerLocation AS OL
WHERE (PL.x <> PI.x OR PL.y <> PI.y) AND PL.prisonerid = PI.prisonerid
  AND (PL.x - OL.x) * (PL.x - OL.x) + (PL.y - OL.y) * (PL.y - OL.y) <= 9
WINDOW :window MILLISECONDS
LIFESPAN :lifespan MICROSECONDS
RANK 1 CRITERIA (PI.committed_violent_offense AND (PL.x - PI.x) * (PL.x - PI.x) + (PL.y - PI.y) * (PL.y - PI.y) >= 1)
RANK 2 CRITERIA (PI.recently_found_in_wrong_location)
RANK 3 CRITERIA (PI.known_flight_risk)
RANK 4 CRITERIA (PI.missed_check_in)
RANK 5 CRITERIA (PI.newly_released)
RANK 6 CRITERIA (PI.bracelet_tampered)
