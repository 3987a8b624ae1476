"""Operators, measured beside the same work in plain PySpark."""
