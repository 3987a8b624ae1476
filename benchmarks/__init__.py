"""Benchmarks of Headrace and its peers. Each subject runs the peer in the same run, on the same disk."""
