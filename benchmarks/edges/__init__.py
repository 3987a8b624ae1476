"""Measures the edges: HTTP against a bare FastAPI route, the latency of streams, and what a subscriber costs."""
