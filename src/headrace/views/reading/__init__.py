"""Readers of versions that are tables of a database."""
