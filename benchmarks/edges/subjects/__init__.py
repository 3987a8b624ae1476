"""The subjects of the benchmark of edges."""
