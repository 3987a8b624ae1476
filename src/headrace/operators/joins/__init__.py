"""Joins, one module per kind. Shared part: `sides.py` (keys, and the names of columns in the result)."""
