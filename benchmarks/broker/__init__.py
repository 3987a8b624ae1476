"""Headrace's broker beside Apache Kafka: the same clients, the same disk, interleaved rounds.

`python -m benchmarks.broker --help` says what can be chosen; docs/benchmarks.md says what the rows mean.
"""
