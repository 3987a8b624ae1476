"""Kafka's own administration commands, 4.3 and 3.9 (each brings its own Java admin client)."""

from __future__ import annotations

import json
import re
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from headrace.testing.java import JavaTools
from tests.compatibility.conftest import CreateTopic
from tests.compatibility.java_programs import (
    CONFIG_COMMAND,
    CONSUMER_GROUP_COMMAND,
    DELETE_RECORDS_COMMAND,
    GET_OFFSET_SHELL,
    LOG_DIRS_COMMAND,
    TOPIC_COMMAND,
    run,
)
from tests.compatibility.topic_contents import read_to_end, write, write_values


def test_topics_are_created_described_altered_and_deleted(
    java_tools: JavaTools, bootstrap: str, name: str
) -> None:
    def topics(*arguments: str) -> str:
        return run(java_tools, TOPIC_COMMAND, "--bootstrap-server", bootstrap, *arguments)

    created = topics("--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=3600000")
    assert f"Created topic {name}." in created

    topics("--alter", "--topic", name, "--partitions", "3")
    described = topics("--describe", "--topic", name)
    assert "PartitionCount: 3" in described
    assert "ReplicationFactor: 1" in described
    assert "retention.ms=3600000" in described
    for partition in range(3):
        assert f"Partition: {partition}\t" in described

    topics("--delete", "--topic", name)
    assert name not in topics("--list").split()


def test_configs_of_topics_and_brokers_are_altered_and_described(
    tools_4_3: JavaTools, bootstrap: str, topic: str
) -> None:
    def configs(*arguments: str) -> str:
        return run(tools_4_3, CONFIG_COMMAND, "--bootstrap-server", bootstrap, *arguments)

    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    configs("--alter", *of_topic, "--add-config", "retention.ms=1000000,cleanup.policy=[compact,delete]")
    described = configs("--describe", *of_topic)
    assert "retention.ms=1000000" in described
    assert "cleanup.policy=compact,delete" in described

    configs("--alter", *of_topic, "--delete-config", "retention.ms")
    everything = configs("--describe", "--all", *of_topic)
    assert "retention.ms=604800000" in everything
    assert "cleanup.policy=compact,delete" in everything


def test_groups_are_described_reset_and_deleted(
    java_tools: JavaTools, bootstrap: str, create_topic: CreateTopic, name: str
) -> None:
    topic = create_topic(partitions=2)
    write(bootstrap, topic, ({"value": str(n), "partition": n % 2} for n in range(20)))
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name})
    consumer.commit(offsets=[TopicPartition(topic, 0, 4), TopicPartition(topic, 1, 10)], asynchronous=False)
    consumer.close()

    def groups(*arguments: str) -> str:
        return run(java_tools, CONSUMER_GROUP_COMMAND, "--bootstrap-server", bootstrap, *arguments)

    def numbers(output: str, columns: int) -> list[tuple[str, ...]]:
        """The columns after group and topic. 3.9 prints a table of resets without line ends."""
        row = rf"{re.escape(name)}\s+{re.escape(topic)}" + r"\s+(\d+)" * columns
        return sorted(re.findall(row, output))

    described = numbers(groups("--describe", "--group", name), columns=4)
    assert described == [("0", "4", "10", "6"), ("1", "10", "10", "0")]

    reset = ("--reset-offsets", "--group", name, "--topic", topic, "--to-earliest")
    assert numbers(groups(*reset, "--dry-run"), columns=2) == [("0", "0"), ("1", "0")]
    assert numbers(groups("--describe", "--group", name), columns=2) == [("0", "4"), ("1", "10")]
    groups(*reset, "--execute")
    assert numbers(groups("--describe", "--group", name), columns=2) == [("0", "0"), ("1", "0")]

    groups("--delete", "--group", name)
    assert name not in groups("--list").split()


def test_offsets_are_shown_at_both_ends_and_by_time(
    java_tools: JavaTools, bootstrap: str, topic: str
) -> None:
    write(bootstrap, topic, ({"value": str(n), "timestamp": 1_600_000_000_000 + n * 1000} for n in range(10)))

    def offset_at(time: str) -> str:
        arguments = ("--bootstrap-server", bootstrap, "--topic", topic, "--time", time)
        return run(java_tools, GET_OFFSET_SHELL, *arguments).strip()

    assert offset_at("earliest") == f"{topic}:0:0"
    assert offset_at("latest") == f"{topic}:0:10"
    assert offset_at("max-timestamp") == f"{topic}:0:9"
    assert offset_at("1600000004500") == f"{topic}:0:5"


def test_records_are_deleted_up_to_an_offset(
    java_tools: JavaTools, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    write_values(bootstrap, topic, (str(n).encode() for n in range(50)))
    wanted = tmp_path / "offsets.json"
    wanted.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 30}]})
    )

    output = run(
        java_tools, DELETE_RECORDS_COMMAND, "--bootstrap-server", bootstrap, "--offset-json-file", str(wanted)
    )

    assert "low_watermark: 30" in output
    assert [int(m.value()) for m in read_to_end(bootstrap, topic)] == list(range(30, 50))


def test_sizes_on_disk_are_described(
    java_tools: JavaTools, bootstrap: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(partitions=2)
    write(bootstrap, topic, ({"value": b"x" * 1000, "partition": 1} for _ in range(10)))

    output = run(
        java_tools, LOG_DIRS_COMMAND, "--bootstrap-server", bootstrap, "--describe", "--topic-list", topic
    )

    (line,) = [line for line in output.splitlines() if line.startswith("{")]
    (broker,) = json.loads(line)["brokers"]
    (folder,) = broker["logDirs"]
    assert folder["error"] is None
    sizes = {one["partition"]: one["size"] for one in folder["partitions"]}
    assert sizes.keys() == {f"{topic}-0", f"{topic}-1"}
    assert sizes[f"{topic}-0"] == 0
    assert sizes[f"{topic}-1"] > 10_000
