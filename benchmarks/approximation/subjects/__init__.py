"""The subjects of the benchmark, one module each."""
