"""What queries share and where their rows go: placements over cells, routing of rows."""
