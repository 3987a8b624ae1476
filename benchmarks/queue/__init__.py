"""Headrace's queues and transactions beside RabbitMQ and Apache Kafka: the same disk, interleaved rounds.

`python -m benchmarks.queue --help` says what can be chosen; docs/benchmarks.md says what the rows mean.
"""
