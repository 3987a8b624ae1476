"""kcat: a command-line client, built on an older librdkafka."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from headrace.testing.requirements import require_command
from tests.compatibility.conftest import CreateTopic
from tests.compatibility.topic_contents import PATIENCE_S, read_to_end, write, write_values


@pytest.fixture(scope="module")
def kcat_path() -> str:
    return require_command("kcat", install="apt-get install kcat")


@pytest.fixture
def kcat(kcat_path: str, bootstrap: str) -> Any:
    def run(*arguments: str, input: str = "") -> str:
        command = [kcat_path, "-b", bootstrap, *arguments]
        done = subprocess.run(
            command, input=input, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stderr}"
        return done.stdout

    return run


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_are_produced_and_consumed_with_every_codec(
    kcat: Any, bootstrap: str, topic: str, codec: str
) -> None:
    lines = [f"key {n % 3}:value {n}" for n in range(300)]

    kcat("-P", "-t", topic, "-z", codec, "-K:", "-H", "source=kcat", input="\n".join(lines) + "\n")

    consumed = kcat("-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%o %h %k:%s\n").splitlines()
    assert consumed == [f"{n} source=kcat {line}" for n, line in enumerate(lines)]
    assert [m.value().decode() for m in read_to_end(bootstrap, topic)] == [f"value {n}" for n in range(300)]


def test_null_value_is_produced_and_consumed(kcat: Any, topic: str) -> None:
    kcat("-P", "-t", topic, "-K:", "-Z", input="deleted:\nkept:now\n")

    assert kcat("-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%k %S\n").splitlines() == [
        "deleted -1",
        "kept 3",
    ]


def test_offset_from_the_end_and_count_limit_the_consumed_records(
    kcat: Any, bootstrap: str, topic: str
) -> None:
    write_values(bootstrap, topic, (str(n).encode() for n in range(50)))

    assert kcat("-C", "-t", topic, "-o", "-3", "-e", "-q").split() == ["47", "48", "49"]
    assert kcat("-C", "-t", topic, "-o", "10", "-c", "2", "-q").split() == ["10", "11"]


def test_metadata_lists_the_topic_and_its_partitions(
    kcat: Any, bootstrap: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(partitions=3)

    metadata = json.loads(kcat("-L", "-J", "-t", topic))

    [described] = metadata["topics"]
    assert [(p["partition"], p["leader"]) for p in described["partitions"]] == [
        (n, metadata["brokers"][0]["id"]) for n in range(3)
    ]
    assert [broker["name"] for broker in metadata["brokers"]] == [bootstrap]


def test_offsets_are_queried_by_time(kcat: Any, bootstrap: str, topic: str) -> None:
    write(bootstrap, topic, ({"value": str(n), "timestamp": 1_600_000_000_000 + n * 1000} for n in range(10)))

    def offset_at(timestamp_ms: int) -> str:
        return str(kcat("-Q", "-t", f"{topic}:0:{timestamp_ms}")).strip()

    assert offset_at(1_600_000_003_500) == f"{topic} [0] offset 4"
    assert offset_at(-2) == f"{topic} [0] offset 0"
    assert offset_at(-1) == f"{topic} [0] offset 10"


def test_group_resumes_at_its_committed_offset(
    kcat: Any, bootstrap: str, create_topic: CreateTopic, name: str
) -> None:
    topic = create_topic(partitions=2)
    write_values(bootstrap, topic, (str(n).encode() for n in range(40)))

    def consume_as_group() -> list[int]:
        output = kcat("-G", name, "-X", "auto.offset.reset=earliest", "-e", "-q", topic)
        return sorted(int(line) for line in output.split())

    assert consume_as_group() == list(range(40))
    write_values(bootstrap, topic, (str(n).encode() for n in range(40, 50)))
    assert consume_as_group() == list(range(40, 50))
