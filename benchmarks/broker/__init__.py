"""Headrace's broker compared with Apache Kafka: the same clients, the same disk, interleaved rounds.

`python -m benchmarks.broker --help` lists the options; docs/benchmarks.md explains the rows.
"""
