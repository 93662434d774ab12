-- Home Arrest as in home_arrest.sql, with a Python function for distances: distance(x, y, x, y), in miles.
SELECT PL.prisonerid, PL.x, PL.y, OL.officerid
FROM prisonerLocation AS PL, prisonerInfo AS PI, officerLocation AS OL
WHERE (PL.x <> PI.x OR PL.y <> PI.y) AND PL.prisonerid = PI.prisonerid
  AND distance(PL.x, PL.y, OL.x, OL.y) <= 3
WINDOW :window MILLISECONDS
LIFESPAN :lifespan MICROSECONDS
RANK 1 CRITERIA (PI.committed_violent_offense AND distance(PL.x, PL.y, PI.x, PI.y) >= 1)
RANK 2 CRITERIA (PI.recently_found_in_wrong_location)
RANK 3 CRITERIA (PI.known_flight_risk)
RANK 4 CRITERIA (PI.missed_check_in)
RANK 5 CRITERIA (PI.newly_released)
RANK 6 CRITERIA (PI.bracelet_tampered)
