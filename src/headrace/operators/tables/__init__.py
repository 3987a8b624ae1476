"""Operators on changelogs: tables as streams of rows that are added (`+`) or retracted (`-`).

The view of a changelog at any time is its additions minus its retractions. Each operator reads changelogs and emits
one. The view of its output equals the result of the query over the views of its inputs.
"""
