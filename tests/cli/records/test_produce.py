"""`headrace produce` on a real broker; what arrived is read back with `headrace consume`."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.events.partitioner import partition_of
from headrace.testing.failing_filesystem import FailingFileSystem
from tests.cli.conftest import COMMAND, Headrace, started
from tests.faults.faulty_broker import broker_on


def records_of(headrace: Headrace, topic: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in headrace("consume", topic, "--format", "json").lines]


def test_each_line_is_a_record_and_the_count_is_reported(headrace: Headrace, topic: str) -> None:
    report = headrace("produce", topic, "--partition", "0", stdin="one\r\ntwo\n\nlast without end")

    assert [each["value"] for each in records_of(headrace, topic)] == ["one", "two", "", "last without end"]
    assert report.out.startswith(f"4 records to {topic}")
    assert "records/s" in report.out


def test_key_is_before_the_separator(headrace: Headrace, topic: str) -> None:
    headrace("produce", topic, "--key-separator", "::", stdin="k1::v1\nk2::v::2\n")

    records = {each["key"]: each["value"] for each in records_of(headrace, topic)}
    assert records == {"k1": "v1", "k2": "v::2"}


def test_key_goes_to_the_partition_that_a_java_client_chooses(
    headrace: Headrace, admin: AdminClient, name: str
) -> None:
    admin.create_topics([NewTopic(name, num_partitions=7)])[name].result()
    keys = [f"key {number}" for number in range(100)]

    headrace("produce", name, "--key-separator", ":", stdin="".join(f"{key}:v\n" for key in keys))

    found = {each["key"]: each["partition"] for each in records_of(headrace, name)}
    assert found == {key: partition_of(key.encode(), 7) for key in keys}


def test_bad_line_is_named_and_nothing_after_it_sent(headrace: Headrace, topic: str) -> None:
    lines = '{"n": 1}\n{broken\n{"n": 2}\n'

    rejected = headrace("produce", topic, "--format", "json", stdin=lines, code=1)

    assert "line 2: not JSON" in rejected.err
    assert rejected.out.startswith("1 records")
    assert [each["value"] for each in records_of(headrace, topic)] == ['{"n": 1}']


def test_bad_lines_can_be_skipped_and_are_counted(headrace: Headrace, topic: str) -> None:
    report = headrace(
        "produce", topic, "--format", "json", "--skip-bad", stdin='{"n": 1}\nbad\n{"n": 2}\nworse\n'
    )

    assert "2 bad lines skipped" in report.out
    assert len(records_of(headrace, topic)) == 2


def test_binary_file_becomes_one_record_byte_for_byte(headrace: Headrace, topic: str, tmp_path: Path) -> None:
    content = bytes(range(256)) * 100 + b"\n\r\n"
    file = tmp_path / "content.bin"
    file.write_bytes(content)

    headrace("produce", topic, "--format", "binary", "--file", str(file))

    read = headrace("consume", topic, "--format", "binary").out.encode(errors="surrogateescape")
    assert read == content


def test_headers_go_with_every_record(headrace: Headrace, topic: str) -> None:
    headrace("produce", topic, "--header", "source=test", "--header", "empty=", stdin="a\nb\n")

    wanted = [{"name": "source", "value": "test"}, {"name": "empty", "value": ""}]
    assert [each["headers"] for each in records_of(headrace, topic)] == [wanted, wanted]


def test_key_of_every_record_is_given_once(headrace: Headrace, topic: str) -> None:
    headrace("produce", topic, "--key", "kitchen", stdin="20\n21\n")
    headrace("produce", topic, "--key", "", "--format", "binary", stdin="chunk")

    keys = {each["value"]: each["key"] for each in records_of(headrace, topic)}
    assert keys == {"20": "kitchen", "21": "kitchen", "chunk": ""}
    both = headrace("produce", topic, "--key", "a", "--key-separator", ":", code=2)
    assert "one of --key and --key-separator" in both.err


@pytest.mark.parametrize(("typed", "meant"), [("\\t", "\t"), ("\\x1f", "\x1f"), ("\\\\", "\\"), ("é", "é")])
def test_separator_may_have_escapes(headrace: Headrace, topic: str, typed: str, meant: str) -> None:
    headrace("produce", topic, "--key-separator", typed, stdin=f"k{meant}v\n")

    (record,) = records_of(headrace, topic)
    assert (record["key"], record["value"]) == ("k", "v")
    assert headrace("consume", topic, "--key-separator", typed).out == f"k{meant}v\n"


@pytest.mark.parametrize(
    ("compression", "acks"),
    [("none", "0"), ("none", "1"), ("gzip", "all"), ("snappy", "all"), ("lz4", "all"), ("zstd", "all")],
)
def test_every_compression_and_acknowledgement_delivers(
    headrace: Headrace, topic: str, compression: str, acks: str
) -> None:
    lines = "".join(f"a line that compresses well, number {number}\n" for number in range(50))

    headrace("produce", topic, "--partition", "0", "--compression", compression, "--acks", acks, stdin=lines)

    read = headrace("consume", topic).out
    while acks == "0" and read != lines:
        # Without acknowledgements the command is done before the broker is; the test's time limit ends a wait in vain.
        read = headrace("consume", topic).out
    assert read == lines


def test_record_over_the_topics_limit_is_reported(headrace: Headrace, topic: str) -> None:
    headrace("topic", "alter", topic, "--config", "max.message.bytes=1000")

    rejected = headrace("produce", topic, stdin="x" * 5000 + "\n", code=1)

    assert "not delivered: Broker: Message size too large" in rejected.err
    assert "1 failed" in rejected.out


def test_missing_file_and_partition_are_rejected(headrace: Headrace, topic: str, tmp_path: Path) -> None:
    assert "cannot read" in headrace("produce", topic, "--file", str(tmp_path / "none"), code=1).err
    assert "no partition 9" in headrace("produce", topic, "--partition", "9", code=1).err


@pytest.mark.parametrize(("stop", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_input_still_delivers_the_records_that_were_read(
    headrace: Headrace, topic: str, environment: dict[str, str], stop: signal.Signals, code: int
) -> None:
    # At this rate the second record is due long after the test: the interrupt comes between the two.
    options = ("--partition", "0", "--rate", "0.001")
    with started("produce", topic, *options, environment=environment) as process:
        assert process.stdin is not None
        process.stdin.write("first\nsecond\n")
        process.stdin.flush()
        while headrace("consume", topic).lines != ["first"]:
            assert process.poll() is None
        process.send_signal(stop)
        out, _ = process.communicate(timeout=60)

    assert process.returncode == code
    assert out.startswith("1 records")
    assert headrace("consume", topic).lines == ["first"]


def test_full_disk_is_reported_with_the_error_of_the_broker(tmp_path: Path) -> None:
    files = FailingFileSystem()
    with broker_on(files, tmp_path / "data", durability="os") as server:
        command = [*COMMAND, "produce", "full", "--bootstrap", server.bootstrap]
        subprocess.run(command, input="first\n", text=True, check=True, capture_output=True)
        files.fail("write", "*/full-0/*.log", error_number=errno.ENOSPC, times=None)
        # More than the client queues: the rest of the input is not read.
        done = subprocess.run(command, input="x\n" * 2_000_000, text=True, check=False, capture_output=True)

    assert done.returncode == 1
    assert done.stderr.startswith("not delivered: Broker: Disk error ")
    assert "headrace: full accepts no records: Broker: Disk error " in done.stderr
    assert "Traceback" not in done.stderr


def test_topic_that_the_broker_cannot_create_is_reported_with_its_error(tmp_path: Path) -> None:
    files = FailingFileSystem()
    with broker_on(files, tmp_path / "data", durability="os") as server:
        files.fail("create", "*/full-0/*", error_number=errno.ENOSPC, times=None)
        command = [*COMMAND, "produce", "full", "--bootstrap", server.bootstrap]
        done = subprocess.run(command, input="x\n", text=True, check=False, capture_output=True)

    assert done.returncode == 1
    assert done.stderr.startswith("headrace: creating topic full: Broker: Disk error ")


def test_unknown_topic_is_an_error_where_topics_are_not_created_by_use(tmp_path: Path) -> None:
    with broker_on(FailingFileSystem(), tmp_path / "data", auto_create_topics=False) as server:
        subprocess.run([*COMMAND, "topic", "create", "clicks", "-b", server.bootstrap], check=True)
        command = [*COMMAND, "produce", "clikcs", "--bootstrap", server.bootstrap]
        done = subprocess.run(command, input="x\n", text=True, check=False, capture_output=True)

    assert done.stderr == "headrace: there is no topic clikcs\n  hint: did you mean clicks?\n"
