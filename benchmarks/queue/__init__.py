"""Headrace's queues and transactions compared with RabbitMQ and Apache Kafka: the same disk, interleaved rounds.

`python -m benchmarks.queue --help` lists the options; docs/benchmarks.md explains the rows.
"""
