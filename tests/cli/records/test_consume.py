"""`headrace consume` on a real broker."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import time

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.testing.requirements import require_command
from tests.cli.conftest import COMMAND, Headrace, next_line, started


def test_reads_to_the_end_and_stops(headrace: Headrace, numbers: str) -> None:
    assert headrace("consume", numbers).lines == [str(number) for number in range(10)]
    assert headrace("consume", numbers, "--from-beginning").lines == [str(number) for number in range(10)]


def test_empty_topic_ends_at_once(headrace: Headrace, topic: str) -> None:
    assert headrace("consume", topic).out == ""


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
    assert "'last' is not an offset" in headrace("consume", numbers, "--offset", "last", code=1).err


def test_starts_a_duration_ago(headrace: Headrace, topic: str, producer: Producer) -> None:
    now_ms = int(time.time() * 1000)
    for age_h in (3, 1):
        producer.produce(topic, f"{age_h} h", partition=0, timestamp=now_ms - age_h * 3_600_000)
    assert producer.flush(60) == 0

    assert headrace("consume", topic, "--from-time", "2h").lines == ["1 h"]
    assert "is not a time" in headrace("consume", topic, "--from-time", "2 fortnights", code=1).err


@pytest.mark.parametrize(
    "template",
    [
        "%t %p %o %T %k=%s\\n",
        "%K:%S %R%h%%\\t\\x41\\r\\n",
        "no code at all\\n",
    ],
)
def test_template_writes_what_kcat_writes(
    bootstrap: str, environment: dict[str, str], topic: str, producer: Producer, template: str
) -> None:
    kcat = require_command("kcat", install="apt-get install kcat")
    headers: list[tuple[str, str | bytes | None]] = [("a", b"1"), ("a", b"x,y"), ("n", None)]
    producer.produce(topic, b"value\xfe", key=b"key", partition=0, headers=headers)
    producer.produce(topic, b"", partition=0)
    producer.produce(topic, None, key=b"gone", partition=0)
    assert producer.flush(60) == 0

    def output(*command: str) -> bytes:
        return subprocess.run(command, capture_output=True, check=True, env=environment, timeout=60).stdout

    theirs = output(kcat, "-b", bootstrap, "-C", "-t", topic, "-p", "0", "-e", "-q", "-f", template)
    ours = output(*COMMAND, "consume", topic, "--partition", "0", "-f", template)

    assert ours == theirs


def test_template_with_an_unknown_code_is_refused(headrace: Headrace, topic: str) -> None:
    refused = headrace("consume", topic, "-f", "%x", code=1)
    assert "unknown code %x" in refused.err
    assert "%s %S %R" in refused.err
    assert "unknown escape \\q" in headrace("consume", topic, "-f", "\\q", code=1).err


def test_reads_only_the_partition_asked_for(headrace: Headrace, numbers: str) -> None:
    headrace("produce", numbers, "--partition", "1", stdin="other\n")

    assert headrace("consume", numbers, "--partition", "1").lines == ["other"]
    assert "no partition 5" in headrace("consume", numbers, "--partition", "5", code=1).err


def test_reads_several_topics(headrace: Headrace, numbers: str) -> None:
    headrace("topic", "create", f"{numbers}-b")
    headrace("produce", f"{numbers}-b", stdin="b\n")

    assert sorted(headrace("consume", numbers, f"{numbers}-b").lines) == [*"0123456789", "b"]


def test_json_has_everything_and_base64_for_what_is_not_text(
    headrace: Headrace, topic: str, producer: Producer
) -> None:
    headers: list[tuple[str, str | bytes | None]] = [("h", b"text"), ("h", b"\xfe"), ("n", None)]
    producer.produce(topic, "välue", key="k", partition=0, timestamp=1_700_000_000_123, headers=headers)
    producer.produce(topic, b"\xff\x00", key=b"\xfd", partition=0, timestamp=1_700_000_000_124)
    producer.produce(topic, None, key="gone", partition=0, timestamp=1_700_000_000_125)
    assert producer.flush(60) == 0

    first, second, third = (json.loads(line) for line in headrace("consume", topic, "--format", "json").lines)

    assert first == {
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestamp": "2023-11-14T22:13:20.123Z",
        "key": "k",
        "value": "välue",
        "headers": [
            {"name": "h", "value": "text"},
            {"name": "h", "value_base64": base64.b64encode(b"\xfe").decode()},
            {"name": "n", "value": None},
        ],
    }
    assert base64.b64decode(second["value_base64"]) == b"\xff\x00"
    assert base64.b64decode(second["key_base64"]) == b"\xfd"
    assert "value" not in second
    assert third["value"] is None


def test_text_has_time_place_and_key(headrace: Headrace, topic: str, producer: Producer) -> None:
    producer.produce(topic, b"v\xff", key="k", partition=1, timestamp=1_700_000_000_123)
    assert producer.flush(60) == 0

    assert headrace("consume", topic, "--format", "text").lines == [
        f"2023-11-14T22:13:20.123Z {topic}-1@0 k: v\\xff"
    ]


def test_what_was_produced_with_keys_is_read_with_keys(headrace: Headrace, topic: str) -> None:
    headrace("produce", topic, "--key-separator", ":", "--partition", "0", stdin="a:1\nb:2\n")

    assert headrace("consume", topic, "--key-separator", ":").lines == ["a:1", "b:2"]


def test_group_goes_on_where_it_stopped(headrace: Headrace, numbers: str, name: str) -> None:
    first = headrace("consume", numbers, "--group", name, "--count", "4").lines
    rest = headrace("consume", numbers, "--group", name).lines
    nothing = headrace("consume", numbers, "--group", name, "--from-beginning").lines

    assert first == ["0", "1", "2", "3"]
    assert rest == ["4", "5", "6", "7", "8", "9"]
    assert nothing == []


def test_reading_without_a_group_leaves_no_group_behind(headrace: Headrace, numbers: str) -> None:
    headrace("consume", numbers)

    assert "headrace-consume" not in headrace("group", "list").out


def test_gap_is_told_with_the_number_of_missed_records(
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


def test_gap_to_the_very_end_is_told_and_ends_the_reading(
    headrace: Headrace, numbers: str, admin: AdminClient
) -> None:
    for future in admin.delete_records([TopicPartition(numbers, 0, 10)]).values():
        future.result(timeout=60)

    read = headrace("consume", numbers, "--offset", "3")

    assert read.out == ""
    assert "7 records from offset 3 on are missing" in read.err


def test_follow_shows_new_records_until_interrupted(
    headrace: Headrace, numbers: str, environment: dict[str, str]
) -> None:
    with started("consume", numbers, "--follow", "--last", "1", environment=environment) as process:
        assert next_line(process) == "9\n"
        headrace("produce", numbers, "--partition", "0", stdin="new\n")
        assert next_line(process) == "new\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)

    assert process.returncode == 130
    assert err == ""


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


def test_follow_begins_at_the_end(headrace: Headrace, numbers: str, environment: dict[str, str]) -> None:
    with started("consume", numbers, "--follow", "--count", "1", environment=environment) as process:
        # It says nothing when it has begun, so records are sent until one arrives.
        deadline_s = time.monotonic() + 60
        while process.poll() is None:
            assert time.monotonic() < deadline_s
            headrace("produce", numbers, "--partition", "0", stdin="new\n")
        assert process.communicate(timeout=60)[0] == "new\n"


def test_reader_that_has_had_enough_is_no_failure(
    environment: dict[str, str], headrace: Headrace, topic: str
) -> None:
    headrace("produce", topic, stdin="a line of text\n" * 50_000)
    with started("consume", topic, environment=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert next_line(process) == "a line of text\n"
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(60) == 0


def test_contradicting_options_are_wrong_usage(headrace: Headrace, topic: str) -> None:
    assert "give one of" in headrace("consume", topic, "--offset", "1", "--last", "1", code=2).err
    assert "not both" in headrace("consume", topic, "--group", "g", "--partition", "1", code=2).err


def test_unknown_topic_is_not_created_by_reading_it(headrace: Headrace, name: str) -> None:
    assert f"there is no topic {name}" in headrace("consume", name, code=1).err
    assert name not in headrace("topic", "list").out
