"""Optimisers that the engine is compared with; all judge by the engine's own models.

Where determinants are evaluated (`penstock.overload.policy.promotion`): `rank_order_pruning` is the paper's greedy
search, `promotion_exhaustive` tries all placements. Which monitoring levels are active
(`penstock.overload.policy.preference`): `preference_basic` is the paper's search without pruning,
`preference_exhaustive` tries all plans.
"""
