"""Where reading starts and ends, gaps, and groups, on a real broker."""

from __future__ import annotations

import json
import signal
import time

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.cli.records.reading import Start, parse_offset
from headrace.errors import HeadraceError
from tests.cli.conftest import Headrace, next_line, started


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("beginning", Start(beginning=True)),
        ("end", Start()),
        ("0", Start(offset=0)),
        ("42", Start(offset=42)),
        ("-5", Start(last=5)),
    ],
)
def test_offset_is_a_number_or_an_end_or_a_distance_from_the_end(text: str, start: Start) -> None:
    assert parse_offset(text) == start


@pytest.mark.parametrize("text", ["", "last", "1.5", "--5", "1e3"])
def test_bad_offset_is_rejected(text: str) -> None:
    with pytest.raises(HeadraceError, match="is not an offset"):
        parse_offset(text)


def test_starts_by_offset_count_and_last(headrace: Headrace, numbers: str) -> None:
    assert headrace("consume", numbers, "--offset", "7").lines == ["7", "8", "9"]
    assert headrace("consume", numbers, "--last", "2").lines == ["8", "9"]
    assert headrace("consume", numbers, "--last", "500").lines == [str(number) for number in range(10)]
    assert headrace("consume", numbers, "--offset", "2", "--count", "3").lines == ["2", "3", "4"]


def test_starts_by_time(headrace: Headrace, topic: str, producer: Producer) -> None:
    for second in range(5):
        timestamp_ms = 1_700_000_000_000 + second * 1000
        producer.produce(topic, str(second), partition=0, timestamp=timestamp_ms)
    assert producer.flush(60) == 0

    assert headrace("consume", topic, "--from-time", "1700000002500").lines == ["3", "4"]
    assert headrace("consume", topic, "--from-time", "2023-11-14T22:13:21Z").lines == ["1", "2", "3", "4"]
    assert headrace("consume", topic, "--from-time", "2099-01-01").lines == []


def test_starts_at_either_end_and_before_it(headrace: Headrace, numbers: str) -> None:
    assert headrace("consume", numbers, "--offset", "beginning", "--count", "1").lines == ["0"]
    assert headrace("consume", numbers, "--offset", "end").lines == []
    assert headrace("consume", numbers, "-o", "-3").lines == ["7", "8", "9"]


def test_group_continues_from_its_committed_offset(headrace: Headrace, numbers: str, name: str) -> None:
    first = headrace("consume", numbers, "--group", name, "--count", "4").lines
    rest = headrace("consume", numbers, "--group", name).lines
    nothing = headrace("consume", numbers, "--group", name, "--from-beginning").lines

    assert first == ["0", "1", "2", "3"]
    assert rest == ["4", "5", "6", "7", "8", "9"]
    assert nothing == []


def test_reading_without_a_group_leaves_no_group_behind(headrace: Headrace, numbers: str) -> None:
    headrace("consume", numbers)

    assert "headrace-consume" not in headrace("group", "list").out


def test_gap_is_reported_with_the_number_of_missing_records(
    headrace: Headrace, numbers: str, name: str, admin: AdminClient
) -> None:
    headrace("consume", numbers, "--group", name, "--count", "2")
    for future in admin.delete_records([TopicPartition(numbers, 0, 6)]).values():
        future.result(timeout=60)

    in_group = headrace("consume", numbers, "--group", name)
    by_offset = headrace("consume", numbers, "--offset", "1")

    assert in_group.lines == ["6", "7", "8", "9"]
    assert f"{numbers}-0: 4 records from offset 2 on are missing" in in_group.err
    assert by_offset.lines == ["6", "7", "8", "9"]
    assert f"{numbers}-0: 5 records from offset 1 on are missing" in by_offset.err


def test_gap_up_to_the_end_is_reported_and_ends_the_reading(
    headrace: Headrace, numbers: str, admin: AdminClient
) -> None:
    for future in admin.delete_records([TopicPartition(numbers, 0, 10)]).values():
        future.result(timeout=60)

    read = headrace("consume", numbers, "--offset", "3")

    assert read.out == ""
    assert "7 records from offset 3 on are missing" in read.err


def test_reads_only_the_partition_that_is_given(headrace: Headrace, numbers: str) -> None:
    headrace("produce", numbers, "--partition", "1", stdin="other\n")

    assert headrace("consume", numbers, "--partition", "1").lines == ["other"]
    assert "no partition 5" in headrace("consume", numbers, "--partition", "5", code=1).err


def test_reads_several_topics(headrace: Headrace, numbers: str) -> None:
    headrace("topic", "create", f"{numbers}-b")
    headrace("produce", f"{numbers}-b", stdin="b\n")

    assert sorted(headrace("consume", numbers, f"{numbers}-b").lines) == [*"0123456789", "b"]


@pytest.mark.parametrize(
    ("stop", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_member_of_a_group_that_is_stopped_commits_and_leaves(
    headrace: Headrace, numbers: str, name: str, environment: dict[str, str], stop: signal.Signals, code: int
) -> None:
    options = ("--group", name, "--from-beginning", "--follow")
    with started("consume", numbers, *options, environment=environment) as process:
        assert [next_line(process) for _ in range(10)] == [f"{number}\n" for number in range(10)]
        process.send_signal(stop)
        _, err = process.communicate(timeout=60)

    described = json.loads(headrace("group", "describe", name, "--format", "json").out)
    assert (process.returncode, err) == (code, "")
    assert described["state"] == "empty"
    assert described["partitions"][0]["committed"] == 10


def test_follow_starts_at_the_end(headrace: Headrace, numbers: str, environment: dict[str, str]) -> None:
    with started("consume", numbers, "--follow", "--count", "1", environment=environment) as process:
        # It prints nothing when it has started, so records are sent until one arrives.
        deadline_s = time.monotonic() + 60
        while process.poll() is None:
            assert time.monotonic() < deadline_s
            headrace("produce", numbers, "--partition", "0", stdin="new\n")
        assert process.communicate(timeout=60)[0] == "new\n"
