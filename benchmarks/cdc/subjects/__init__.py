"""The subjects of the benchmark of captures."""
