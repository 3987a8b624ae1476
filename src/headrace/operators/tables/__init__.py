"""Tables that change, as streams of changes: rows that are added (`+`) and rows that are taken back (`-`).

A changelog's view at any time is its assertions minus its retractions. Each operator here takes changelogs and gives
one, whose view is what a query over the views that came in would give.
"""
