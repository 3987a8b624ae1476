"""`headrace log` on the files that a broker wrote."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Headrace
from tests.cli.typed_json import json_problems
from tests.compatibility.brokers import BrokerUnderTest


@pytest.fixture
def folder(headrace: Headrace, broker: BrokerUnderTest, topic: str, tmp_path: Path) -> Path:
    """A copy of a partition with two batches, the first of three records."""
    headrace("produce", topic, "--partition", "0", "--key-separator", ":", stdin="a:1\nb:2\nc:3\n")
    headrace("produce", topic, "--partition", "0", "--compression", "gzip", stdin="last\n")
    copy = tmp_path / "copy"
    shutil.copytree(broker.data_dir / f"{topic}-0", copy)
    return copy


def segment_of(folder: Path) -> Path:
    return folder / "00000000000000000000.log"


def test_dump_shows_each_batch(headrace: Headrace, folder: Path) -> None:
    shown = headrace("log", "dump", str(segment_of(folder))).out

    assert "offsets=0..2 records=3" in shown
    assert "offsets=3..3 records=1" in shown
    assert "value=" not in shown


def test_dump_of_a_folder_shows_records_on_request(headrace: Headrace, folder: Path) -> None:
    shown = headrace("log", "dump", str(folder), "--records").out

    assert str(segment_of(folder)) in shown
    assert "key=b value=2" in shown
    assert "key=(null) value=last" in shown


def test_dump_as_json_is_a_line_for_each_entry(headrace: Headrace, folder: Path) -> None:
    lines = headrace("log", "dump", str(segment_of(folder)), "--records", "--format", "json").lines

    batches = [json.loads(line) for line in lines]
    assert [each["header"]["base_offset"] for each in batches] == [0, 3]
    assert [record["value"] for each in batches for record in each["records"]] == ["1", "2", "3", "last"]


def test_damage_is_shown_and_makes_the_command_fail(headrace: Headrace, folder: Path) -> None:
    content = bytearray(segment_of(folder).read_bytes())
    content[80] ^= 1
    segment_of(folder).write_bytes(content)

    failed = headrace("log", "dump", str(segment_of(folder)), code=1)

    assert "DAMAGED" in failed.out
    assert "offsets=3..3" in failed.out
    assert "1 places" in failed.err


def test_repair_reports_lost_offsets_first_and_keeps_the_rest(headrace: Headrace, folder: Path) -> None:
    content = bytearray(segment_of(folder).read_bytes())
    content[80] ^= 1
    segment_of(folder).write_bytes(content)

    planned = headrace("log", "repair", str(folder), code=1)
    assert "3 offsets" in planned.out
    assert "--yes" in planned.err
    assert segment_of(folder).read_bytes() == content
    headrace("log", "repair", str(folder), "--yes")
    shown = headrace("log", "dump", str(folder), "--records").out
    assert "value=last" in shown
    assert "is not damaged" in headrace("log", "repair", str(folder)).out


def test_repair_as_json_is_as_declared(headrace: Headrace, folder: Path) -> None:
    sound = headrace("log", "repair", str(folder), "--format", "json").out
    content = bytearray(segment_of(folder).read_bytes())
    content[80] ^= 1
    segment_of(folder).write_bytes(content)
    planned = headrace("log", "repair", str(folder), "--format", "json", code=1).out
    repaired = headrace("log", "repair", str(folder), "--yes", "--format", "json").out

    for shown in (sound, planned, repaired):
        assert json_problems("log repair", shown) == []
    assert [json.loads(each)["is_repaired"] for each in (sound, planned, repaired)] == [False, False, True]
    assert json.loads(planned)["segments"][0]["lost_offsets"] == 3


def test_repair_rejects_while_a_broker_runs(headrace: Headrace, broker: BrokerUnderTest, topic: str) -> None:
    if broker.kind != "headrace":
        pytest.skip("Apache Kafka locks its folder in its own way")
    rejected = headrace("log", "repair", str(broker.data_dir / f"{topic}-0"), code=1)

    assert "a broker is using" in rejected.err


def test_repair_of_something_else_is_rejected(headrace: Headrace, tmp_path: Path) -> None:
    assert "there is no folder" in headrace("log", "repair", str(tmp_path / "none"), code=1).err
    assert "no segments" in headrace("log", "repair", str(tmp_path), code=1).err


def test_file_that_is_none_of_a_logs_is_rejected(headrace: Headrace, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")

    assert "not a file of a partition" in headrace("log", "dump", str(tmp_path / "notes.txt"), code=1).err
    assert "is missing" in headrace("log", "dump", str(tmp_path / "missing.log"), code=1).err
    assert "no segments" in headrace("log", "dump", str(tmp_path), code=1).err
