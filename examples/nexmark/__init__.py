"""Nexmark, the benchmark of an online auction: 19 of its queries with Headrace's operators."""
