"""Large inputs of `headrace produce`, which are sent as whole batches, and what happens if one is rejected."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from headrace.cli.records.sender import BULK_BYTES_MIN
from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import read_committed
from tests.cli.conftest import Headrace, started
from tests.edges.conftest import values_in, wait_until
from tests.faults.broker_process import BrokerProcess

COUNT = 40_000
LINES = "".join(f"line {number}\n" for number in range(COUNT))

assert len(LINES) > 2 * BULK_BYTES_MIN


def values(bootstrap: str, topic: str) -> list[str]:
    return [value.decode() for value in values_in(bootstrap, topic)]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_large_input_arrives_in_order_with_key_and_headers(
    headrace: Headrace, bootstrap: str, topic: str, compression: str
) -> None:
    options = ["--partition", "1", "--key", "k", "--header", "source=test", "--compression", compression]
    report = headrace("produce", topic, *options, "--report", "json", stdin=LINES)

    assert json.loads(report.out)["records"] == COUNT
    found = [*read_committed(Cluster(bootstrap, timeout_s=30), topic)]
    assert [(message.value() or b"").decode() for message in found] == LINES.splitlines()
    assert {(message.key(), message.partition()) for message in found} == {(b"k", 1)}
    assert [found[-1].headers()] == [[("source", b"test")]]


def test_small_lines_in_front_of_a_large_input_keep_their_order(
    headrace: Headrace, environment: dict[str, str], bootstrap: str, topic: str
) -> None:
    with started("produce", topic, "--partition", "0", environment=environment) as process:
        assert process.stdin is not None
        process.stdin.write("first\n")
        process.stdin.flush()
        wait_until(lambda: values(bootstrap, topic) == ["first"])
        process.communicate(LINES + "last\n", timeout=60)
    assert values(bootstrap, topic) == ["first", *LINES.splitlines(), "last"]


def test_line_that_the_topic_rejects_is_reported_and_all_others_arrive_in_order(
    headrace: Headrace, bootstrap: str, topic: str
) -> None:
    headrace("topic", "alter", topic, "--config", "max.message.bytes=300000")
    long = "x" * 400_000 + "\n"

    report = headrace("produce", topic, "--partition", "0", stdin=LINES + long + LINES, code=1)

    assert "not delivered: Broker: Message size too large" in report.err
    assert report.out.startswith(f"{2 * COUNT} records")
    assert "1 failed" in report.out
    assert values(bootstrap, topic) == [*LINES.splitlines(), *LINES.splitlines()]


def test_records_without_a_key_are_rejected_one_by_one_by_a_compacted_topic(
    headrace: Headrace, bootstrap: str, topic: str
) -> None:
    headrace("topic", "alter", topic, "--config", "cleanup.policy=compact")

    report = headrace("produce", topic, stdin=LINES, code=1)

    assert f"{COUNT} failed" in report.out
    assert values(bootstrap, topic) == []


def test_each_line_is_stored_once_although_the_broker_is_killed(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "broker", default_partitions=1)
    with broker:
        environment = {**os.environ, "HEADRACE_BOOTSTRAP": broker.bootstrap}
        with started("produce", "lines", environment=environment) as process:
            assert process.stdin is not None
            for part in range(3):
                process.stdin.write(LINES)
                process.stdin.flush()
                wait_until(lambda: len(values(broker.bootstrap, "lines")) > part * COUNT)  # noqa: B023
                broker.kill()
                broker.start()
            out, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (0, "")
        assert out.startswith(f"{3 * COUNT} records")
        assert values(broker.bootstrap, "lines") == LINES.splitlines() * 3
