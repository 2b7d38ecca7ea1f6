"""From outputs to cells: what an evaluator is, and the built-in ones."""
