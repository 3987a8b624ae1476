"""Headrace: one Python platform for event streams."""
