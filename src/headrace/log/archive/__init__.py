"""Segments in an object store: what is there, copying them, reading them back."""
