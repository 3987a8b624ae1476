"""Measures the edges: HTTP against a bare FastAPI route, streams and their subscribers, StatsD against its reference."""
