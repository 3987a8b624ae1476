"""Kafka's Java clients and tools on a topic whose older records are in an archive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.embedded import Broker
from headrace.testing.java import JavaTools
from tests.broker.observing import eventually, metrics
from tests.compatibility.java_programs import (
    CONFIG_COMMAND,
    CONSOLE_CONSUMER,
    CONSUMER_PERFORMANCE,
    DUMP_LOG_SEGMENTS,
    GET_OFFSET_SHELL,
    TOPIC_COMMAND,
    run,
)
from tests.compatibility.topic_contents import write_values

TOPIC = "history"
RECORDS = 50_000
VALUES = [b"%06d" % number + b"." * 94 for number in range(RECORDS)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("archive")


@pytest.fixture(scope="module")
def archiving(root: Path, tools_4_3: JavaTools) -> Iterator[Broker]:
    """A broker with a topic that Kafka's own tool created; all but its newest records are archived."""
    settings: dict[str, Any] = {"archive_address": str(root), "archive_interval_ms": 50, "metrics_port": 0}
    with Broker(**settings) as broker:
        configs = ("remote.storage.enable=true", "local.retention.bytes=1", "segment.bytes=1048576")
        arguments = [word for config in configs for word in ("--config", config)]
        run(
            tools_4_3,
            TOPIC_COMMAND,
            *("--bootstrap-server", broker.bootstrap, "--create", "--topic", TOPIC),
            *arguments,
        )
        write_values(broker.bootstrap, TOPIC, VALUES)

        def is_archived() -> bool:
            seen = metrics(broker)
            return (
                seen["headrace_archive_waiting_segments"] == 0
                and seen["headrace_archive_local_copies_removed_total"]
                == seen["headrace_archive_segments"]
                > 2
            )

        eventually(is_archived, "closed segments are in the archive only")
        yield broker


def test_console_consumer_reads_all_from_the_beginning(archiving: Broker, tools_4_3: JavaTools) -> None:
    output = run(
        tools_4_3,
        CONSOLE_CONSUMER,
        *("--bootstrap-server", archiving.bootstrap, "--topic", TOPIC, "--from-beginning"),
        *("--max-messages", str(RECORDS), "--timeout-ms", "30000"),
    )
    assert output.encode().split() == VALUES


@pytest.mark.slow
def test_consumer_performance_reads_all(archiving: Broker, tools_4_3: JavaTools) -> None:
    output = run(
        tools_4_3,
        CONSUMER_PERFORMANCE,
        *("--bootstrap-server", archiving.bootstrap, "--topic", TOPIC, "--messages", str(RECORDS)),
    )
    assert f" {RECORDS}," in output.splitlines()[-1]


def test_offset_shell_finds_offsets_in_the_archive_and_on_disk(
    archiving: Broker, tools_4_3: JavaTools
) -> None:
    def offset(time: str) -> int:
        arguments = ("--bootstrap-server", archiving.bootstrap, "--topic", TOPIC, "--time", time)
        output = run(tools_4_3, GET_OFFSET_SHELL, *arguments)
        return int(output.strip().rpartition(":")[2])

    local = offset("earliest-local")
    assert 0 < local < RECORDS
    assert offset("latest-tiered") == local - 1


@pytest.mark.slow
def test_config_command_cannot_make_an_archived_topic_compacted(
    archiving: Broker, tools_4_3: JavaTools
) -> None:
    done = tools_4_3.run(
        CONFIG_COMMAND,
        *("--bootstrap-server", archiving.bootstrap, "--alter", "--topic", TOPIC),
        *("--add-config", "cleanup.policy=compact"),
        timeout_s=60,
    )
    assert "InvalidConfigurationException" in done.stdout + done.stderr


def test_archived_segments_are_files_that_kafka_reads(
    archiving: Broker, root: Path, tools_4_3: JavaTools
) -> None:
    segment = sorted(root.rglob("*.log"))[1]
    files = ",".join(str(segment.with_suffix(suffix)) for suffix in (".log", ".index", ".timeindex"))
    output = run(tools_4_3, DUMP_LOG_SEGMENTS, "--files", files, "--deep-iteration")
    assert f"starting offset: {int(segment.stem)}" in output
    assert "isvalid: false" not in output
    assert "mismatch" not in output.lower()
