"""What a query means: frozen nodes, typed expressions, windows and update patterns."""
