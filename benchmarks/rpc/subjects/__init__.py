"""The subjects of the benchmark of questions."""
