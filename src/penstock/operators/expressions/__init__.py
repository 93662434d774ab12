"""How expressions run: one module per family of functions, put together by `operators.expressions.evaluator`."""
