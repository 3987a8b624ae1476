"""Compares answers to questions with Storm's DRPC, and with Spark's reader of the state."""
