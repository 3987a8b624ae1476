"""Operators, compared with the same work in plain PySpark."""
