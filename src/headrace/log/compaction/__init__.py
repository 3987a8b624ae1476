"""Compaction: of every key the last value stays, at its old offset."""
