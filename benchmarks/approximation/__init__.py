"""Sketches over all time, compared with the exact aggregates of Spark."""
