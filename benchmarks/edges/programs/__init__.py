"""The programs of the benchmark of edges: servers to compare with, and clients."""
