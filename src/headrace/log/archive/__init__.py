"""Segments in an object store: their list, copies and reads."""
