"""Compares what edges receive with the reference implementations of their protocols."""
