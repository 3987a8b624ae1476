"""The clients that load a broker, each in its own process, and their figures."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import cast

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.errors import HeadraceError
from headrace.java import last_lines
from headrace.testing.apache_kafka import kafka_tools_4_3

CLIENT_TIMEOUT_S = 900
"""The slowest load of a full run takes some 20 s. A client that hangs fails only its subject."""

ADMIN_TIMEOUT_S = 60
LOG_ERRORS_ONLY = 3
CLIENT_HEAP_MB = 512
_SENT = re.compile(r"(\d+) records sent, ([\d.]+) records/sec")


class ClientFailed(HeadraceError):
    """A client ended with an error, or processed too few records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaLatency:
    average_ms: float
    p50_ms: float
    p99_ms: float


def create_topic(bootstrap: str, topic: str, *, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": LOG_ERRORS_ONLY})
    created = admin.create_topics(
        [NewTopic(topic, num_partitions=partitions, replication_factor=1)], request_timeout=ADMIN_TIMEOUT_S
    )
    created[topic].result()


def check_end_offset(bootstrap: str, topic: str, records: int, *, partitions: int = 1) -> None:
    """A rate is valid only if the log has all records."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "log_level": LOG_ERRORS_ONLY})
    try:
        stored = 0
        for partition in range(partitions):
            there = TopicPartition(topic, partition)
            stored += consumer.get_watermark_offsets(there, timeout=ADMIN_TIMEOUT_S)[1]
    finally:
        consumer.close()
    if stored != records:
        raise ClientFailed(f"{records} records were produced to {topic}, but its log has {stored}")


def java_produce(bootstrap: str, topic: str, records: int, record_bytes: int) -> float:
    """Records per second, by Kafka's ProducerPerformance with the producer's defaults (including acks=all)."""
    output = _java(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--throughput", "-1"),
        *("--num-records", str(records), "--record-size", str(record_bytes)),
        *("--command-property", "acks=all"),
    )
    sent = _SENT.findall(output)
    if not sent or int(sent[-1][0]) != records:
        raise ClientFailed(f"ProducerPerformance did not send {records} records:\n{last_lines(output)}")
    return float(sent[-1][1])


def java_consume(bootstrap: str, topic: str, records: int) -> float:
    """Records per second while fetching, by Kafka's ConsumerPerformance, without the time to join the group."""
    output = _java(
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records)),
        *("--timeout", "30000"),
    )
    lines = [line.split(", ") for line in output.splitlines() if line.count(", ") >= 9]
    if len(lines) != 2:
        raise ClientFailed(f"ConsumerPerformance did not print its two lines:\n{last_lines(output)}")
    figures = dict(zip(lines[0], lines[1], strict=True))
    if float(figures["data.consumed.in.nMsg"]) < records:
        raise ClientFailed(f"ConsumerPerformance did not get {records} records:\n{last_lines(output)}")
    return float(figures["fetch.nMsg.sec"])


def java_latency(bootstrap: str, topic: str, records: int, record_bytes: int) -> JavaLatency:
    """Kafka's EndToEndLatency with acks=1. It prints the percentiles in whole milliseconds."""
    output = _java(
        "org.apache.kafka.tools.EndToEndLatency",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records)),
        *("--producer-acks", "1", "--record-size", str(record_bytes)),
    )
    average = re.search(r"Avg latency: ([\d.]+)", output)
    percentiles = re.search(r"50th = (\d+), 99th = (\d+)", output)
    if average is None or percentiles is None:
        raise ClientFailed(f"EndToEndLatency did not print its figures:\n{last_lines(output)}")
    return JavaLatency(
        average_ms=float(average[1]), p50_ms=float(percentiles[1]), p99_ms=float(percentiles[2])
    )


def _java(main_class: str, *arguments: str) -> str:
    tools = kafka_tools_4_3(quick_start=False)
    done = tools.run(main_class, *arguments, timeout_s=CLIENT_TIMEOUT_S)
    if done.returncode != 0:
        name = main_class.rpartition(".")[2]
        raise ClientFailed(
            f"{name} ended with code {done.returncode}:\n{last_lines(done.stdout + done.stderr)}"
        )
    return done.stdout


def confluent(
    work: str, bootstrap: str, topic: str, records: int, record_bytes: int = 0, **settings: str | int
) -> dict[str, float]:
    """Run benchmarks.broker.confluent_client; a setting `batch_size=1` is librdkafka's `batch.size`."""
    pairs = [f"{name.replace('_', '.')}={value}" for name, value in settings.items()]
    arguments = [work, bootstrap, topic, str(records), str(record_bytes), *pairs]
    return _python("benchmarks.broker.confluent_client", *arguments)


def raw(work: str, address: str, frames: int, record_bytes: int) -> dict[str, float]:
    return _python("benchmarks.broker.raw_client", work, address, str(frames), str(record_bytes))


def _python(module: str, *arguments: str) -> dict[str, float]:
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CLIENT_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise ClientFailed(
            f"{module} {arguments[0]} ended with code {done.returncode}:\n{last_lines(done.stdout + done.stderr)}"
        )
    return cast(dict[str, float], json.loads(done.stdout))
