"""Copies of rows that an erasure reaches: one module for each kind of target."""
