"""Which rows get the budget: promotion, preferential results, and policies to compare with."""
