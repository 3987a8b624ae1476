"""The Java clients 4.3 and 3.9, producing and consuming through Kafka's own test programs."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from headrace.testing.java import JavaTools
from tests.compatibility.conftest import CreateTopic
from tests.compatibility.java_programs import (
    CONSOLE_CONSUMER,
    CONSOLE_PRODUCER,
    CONSUMER_PERFORMANCE,
    END_TO_END_LATENCY,
    LOG_COMPACTION_TESTER,
    PRODUCER_PERFORMANCE,
    TIMEOUT_S,
    VERIFIABLE_CONSUMER,
    VERIFIABLE_PRODUCER,
    events,
    run,
)
from tests.compatibility.topic_contents import PATIENCE_S, read_to_end, write, write_values


def test_verifiable_producer_has_every_record_acknowledged_once(
    java_tools: JavaTools, bootstrap: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(partitions=3)
    arguments = ("--bootstrap-server", bootstrap, "--topic", topic, "--max-messages", "1000", "--acks", "-1")

    produced = events(run(java_tools, VERIFIABLE_PRODUCER, *arguments))

    assert (produced[-1]["sent"], produced[-1]["acked"]) == (1000, 1000)
    acknowledged = {
        (event["partition"], event["offset"], event["value"])
        for event in produced
        if event["name"] == "producer_send_success"
    }
    read = read_to_end(bootstrap, topic)
    assert len(read) == 1000
    assert {(m.partition(), m.offset(), m.value().decode()) for m in read} == acknowledged


def test_verifiable_consumer_resumes_at_the_committed_offsets(
    java_tools: JavaTools, bootstrap: str, topic: str, name: str
) -> None:
    write_values(bootstrap, topic, (str(n).encode() for n in range(100)))
    arguments = ("--bootstrap-server", bootstrap, "--topic", topic, "--group-id", name, "--verbose")

    def consume(count: int) -> list[int]:
        consumed = events(
            run(
                java_tools,
                VERIFIABLE_CONSUMER,
                *arguments,
                "--max-messages",
                str(count),
                "--reset-policy",
                "earliest",
            )
        )
        assert [event["success"] for event in consumed if event["name"] == "offsets_committed"]
        assert all(event["success"] for event in consumed if event["name"] == "offsets_committed")
        return [int(event["value"]) for event in consumed if event["name"] == "record_data"]

    assert consume(60) == list(range(60))
    assert consume(40) == list(range(60, 100))


class VerifiableMember:
    """A VerifiableConsumer that runs in the background; its events are collected."""

    def __init__(self, tools: JavaTools, bootstrap: str, group: str, topic: str, assignor: str) -> None:
        self.events: list[dict[str, Any]] = []
        self._process = tools.start(
            *(VERIFIABLE_CONSUMER, "--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group),
            *("--reset-policy", "earliest", "--session-timeout", "6000", "--verbose"),
            *("--assignment-strategy", f"org.apache.kafka.clients.consumer.{assignor}"),
            stderr=subprocess.DEVNULL,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self.events.append(json.loads(line))

    @property
    def values(self) -> list[int]:
        return [int(event["value"]) for event in list(self.events) if event["name"] == "record_data"]

    def leave(self) -> None:
        self._process.terminate()
        self._process.wait(TIMEOUT_S)
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.mark.parametrize(
    ("java_tools", "assignor"),
    [("4.3", "CooperativeStickyAssignor"), ("3.9", "RangeAssignor")],
    indirect=["java_tools"],
)
def test_java_members_rebalance_when_one_leaves(
    java_tools: JavaTools, bootstrap: str, create_topic: CreateTopic, name: str, assignor: str
) -> None:
    topic = create_topic(partitions=4)
    members = [VerifiableMember(java_tools, bootstrap, name, topic, assignor) for _ in range(2)]
    leaving, staying = members
    written = 0
    deadline_s = time.monotonic() + TIMEOUT_S
    try:
        # If both have read records, both have partitions.
        while not (leaving.values and staying.values):
            assert time.monotonic() < deadline_s, f"not both read: {[m.events[-3:] for m in members]}"
            write(bootstrap, topic, ({"value": str(written + n), "partition": n} for n in range(4)))
            written += 4
            time.sleep(0.1)
        leaving.leave()
        write(bootstrap, topic, ({"value": str(written + n), "partition": n % 4} for n in range(40)))
        written += 40
        while set(leaving.values) | set(staying.values) != set(range(written)):
            assert time.monotonic() < deadline_s, f"{written} written, {staying.events[-3:]}"
            time.sleep(0.05)
    finally:
        for member in members:
            member.leave()

    # A rebalance before a commit may duplicate a record; none may be missing.
    assert set(leaving.values) | set(staying.values) == set(range(written))
    assert set(staying.values) >= set(range(written - 40, written))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_producer_performance_writes_the_records_with_every_codec(
    java_tools: JavaTools, bootstrap: str, topic: str, codec: str
) -> None:
    output = run(
        java_tools,
        *(PRODUCER_PERFORMANCE, "--topic", topic, "--num-records", "5000", "--record-size", "100"),
        *(
            "--throughput",
            "-1",
            "--producer-props",
            f"bootstrap.servers={bootstrap}",
            f"compression.type={codec}",
        ),
    )

    assert "5000 records sent" in output
    read = read_to_end(bootstrap, topic, check_crcs=True)
    assert [m.offset() for m in read] == list(range(5000))
    assert {len(m.value()) for m in read} == {100}


def test_consumer_performance_reads_what_every_codec_wrote(
    java_tools: JavaTools, bootstrap: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(partitions=2)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        write_values(bootstrap, topic, (b"%d" % n * 20 for n in range(1000)), compression_type=codec)

    output = run(
        java_tools,
        *(CONSUMER_PERFORMANCE, "--bootstrap-server", bootstrap, "--topic", topic, "--messages", "5000"),
        *("--hide-header", "--timeout", str(PATIENCE_S * 1000)),
    )

    [row] = [line for line in output.splitlines() if line.count(",") > 5]
    assert int(row.split(",")[4]) == 5000


def test_end_to_end_latency_consumes_every_record(java_tools: JavaTools, bootstrap: str, topic: str) -> None:
    output = run(java_tools, END_TO_END_LATENCY, bootstrap, topic, "200", "all", "100")

    assert re.search(r"Avg latency: [\d.]+ ms", output)
    assert len(read_to_end(bootstrap, topic)) >= 200


def test_console_consumer_prints_keys_headers_offsets_and_timestamps(
    java_tools: JavaTools, bootstrap: str, topic: str
) -> None:
    write(
        bootstrap,
        topic,
        [
            {"key": "a", "value": "first", "headers": [("h", b"1")], "timestamp": 1_700_000_000_000},
            {"key": None, "value": "second", "timestamp": 1_700_000_000_001},
        ],
    )
    shown = ("key", "headers", "offset", "partition", "timestamp")

    output = run(
        java_tools,
        *(CONSOLE_CONSUMER, "--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning"),
        *("--max-messages", "2", "--timeout-ms", str(PATIENCE_S * 1000)),
        *(part for what in shown for part in ("--property", f"print.{what}=true")),
    )

    assert [line.split("\t") for line in output.splitlines() if line.startswith("CreateTime")] == [
        ["CreateTime:1700000000000", "Partition:0", "Offset:0", "h:1", "a", "first"],
        ["CreateTime:1700000000001", "Partition:0", "Offset:1", "NO_HEADERS", "null", "second"],
    ]


def test_console_producer_writes_keyed_lines(tools_4_3: JavaTools, bootstrap: str, topic: str) -> None:
    run(
        tools_4_3,
        *(CONSOLE_PRODUCER, "--bootstrap-server", bootstrap, "--topic", topic),
        *("--reader-property", "parse.key=true", "--reader-property", "key.separator=:"),
        input="a:1\nb:2\na:3\n",
    )

    assert [(m.key(), m.value()) for m in read_to_end(bootstrap, topic)] == [
        (b"a", b"1"),
        (b"b", b"2"),
        (b"a", b"3"),
    ]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_log_compaction_tester_finds_the_last_value_of_every_key_in_a_log_that_got_smaller(
    tools_4_3: JavaTools, bootstrap: str, admin: AdminClient, tmp_path: Path
) -> None:
    tester = tools_4_3.start(
        *(LOG_COMPACTION_TESTER, "--bootstrap-server", bootstrap, "--messages", "200000"),
        *("--percent-deletes", "20", "--sleep", "3"),
        stderr=subprocess.STDOUT,
    )
    assert tester.stdout is not None
    with tester.stdout as stdout:
        first_line = stdout.readline()
        topic = first_line.split()[-1]
        # The tester keeps segments of a gigabyte, of which none would be compacted.
        settings = {"segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        admin.incremental_alter_configs([resource])[resource].result(timeout=PATIENCE_S)
        output = first_line + stdout.read()

    assert tester.wait(TIMEOUT_S) == 0, output
    assert re.search(r"Validated [1-9]\d* values, 0 mismatches", output), output
    reduction = re.search(r"\(([\d.]+)% reduction\)", output)
    assert reduction is not None, output
    assert float(reduction[1]) > 10, output
