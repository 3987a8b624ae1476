"""Measures the edges: HTTP against a bare FastAPI route, streams, StatsD against its reference implementation."""
