"""Where rows go: placements rule by rule, routing value by value."""
