"""Joins, one file a kind. What they share: `sides.py` (keys, and what columns are called in the result)."""
