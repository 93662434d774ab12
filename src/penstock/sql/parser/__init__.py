"""From text to a syntax tree with positions."""
