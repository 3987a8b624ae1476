"""How a record is written: the formats, and templates as kcat has them."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from confluent_kafka import Message, Producer

from headrace.cli.records.consume_output import RecordFormat, as_json, record_writer, template_writer
from headrace.errors import HeadraceError
from headrace.testing.requirements import require_command
from tests.cli.conftest import COMMAND


def record(**fields: Any) -> Message:
    return Message(
        **{"topic": "clicks", "partition": 1, "offset": 42, "timestamp": (1, 1_700_000_000_123), **fields}
    )


@pytest.mark.parametrize(
    ("format", "written"),
    [
        ("value", b"v\xff\n"),
        ("text", b"2023-11-14T22:13:20.123Z clicks-1@42 k: v\\xff\n"),
        ("binary", b"v\xff"),
    ],
)
def test_record_is_written_in_each_format(format: RecordFormat, written: bytes) -> None:
    assert record_writer(format, None)(record(key=b"k", value=b"v\xff")) == written


@pytest.mark.parametrize(
    ("format", "written"), [("value", b"\n"), ("text", b"- clicks-1@42 (null)\n"), ("binary", b"")]
)
def test_record_without_key_value_and_time_is_written(format: RecordFormat, written: bytes) -> None:
    assert record_writer(format, None)(record(timestamp=(0, 0))) == written


def test_key_is_written_before_the_separator() -> None:
    write = record_writer("value", b"\x1f")

    assert write(record(key=b"k", value=b"v")) == b"k\x1fv\n"
    assert write(record(value=b"v")) == b"\x1fv\n"


def test_json_has_all_fields_in_a_line() -> None:
    headers = [("h", b"text"), ("h", b"\xfe"), ("n", None)]
    line = record_writer("json", None)(record(key=b"k", value="v\u00e4l\nue".encode(), headers=headers))

    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "topic": "clicks",
        "partition": 1,
        "offset": 42,
        "timestamp": "2023-11-14T22:13:20.123Z",
        "key": "k",
        "value": "v\u00e4l\nue",
        "headers": [
            {"name": "h", "value": "text"},
            {"name": "h", "value_base64": "/g=="},
            {"name": "n", "value": None},
        ],
    }


def test_json_has_base64_for_bytes_that_are_not_text_and_null_for_a_tombstone() -> None:
    binary = as_json(record(key=b"\xfd", value=b"\xff\x00"))
    tombstone = as_json(record(key=b"k", value=None))

    assert (binary["key_base64"], binary["value_base64"]) == ("/Q==", "/wA=")
    assert "value" not in binary
    assert tombstone["value"] is None


@pytest.mark.parametrize("template", ["%x", "100%", "%"])
def test_unknown_code_of_a_template_is_rejected_with_those_that_exist(template: str) -> None:
    with pytest.raises(HeadraceError, match=r"has an unknown code .*%s %S %R"):
        template_writer(template)


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
    producer.produce(topic, None, key=b"deleted", partition=0)
    assert producer.flush(60) == 0

    def output(*command: str) -> bytes:
        return subprocess.run(command, capture_output=True, check=True, env=environment, timeout=60).stdout

    theirs = output(kcat, "-b", bootstrap, "-C", "-t", topic, "-p", "0", "-e", "-q", "-f", template)
    ours = output(*COMMAND, "consume", topic, "--partition", "0", "-f", template)

    assert ours == theirs
