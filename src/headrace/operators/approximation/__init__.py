"""Approximate results over all time, with documented error bounds and bounded state: aggregates by sketches, the most
frequent values, frequencies, membership, samples and clusters.

Modules whose name ends with `_step` are pure columns, without Spark.
"""
