"""Pairs, configs, sizes and escapes, as people type them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from headrace import Broker
from headrace.cli.arguments import parse_configs, parse_pairs, parse_size_bytes, unescape
from headrace.errors import HeadraceError
from tests.cli.conftest import COMMAND


def test_value_of_a_pair_may_be_empty_and_may_have_an_equals_sign() -> None:
    assert parse_pairs(["a=1", " b =", "c=x=y"], option="--set") == {"a": "1", "b": "", "c": "x=y"}


@pytest.mark.parametrize("text", ["name", "=value", ""])
def test_text_that_is_no_pair_is_rejected_with_its_option(text: str) -> None:
    with pytest.raises(HeadraceError, match=r"--set .* is not a pair \(write --set name=value\)"):
        parse_pairs([text], option="--set")


@pytest.mark.parametrize(
    ("pair", "plain"),
    [
        ("retention.ms=90s", "90000"),
        ("retention.ms=PT1H", "3600000"),
        ("retention.ms=-1", "-1"),
        ("retention.ms= 5 ", "5"),
        ("segment.bytes=64KiB", "65536"),
        ("segment.bytes=64k", "64000"),
        ("retention.bytes=1.5 GB", "1500000000"),
        ("cleanup.policy=compact", "compact"),
        ("errors.deadletterqueue.topic.name=1h", "1h"),
    ],
)
def test_units_become_the_numbers_that_a_broker_knows(pair: str, plain: str) -> None:
    assert list(parse_configs([pair]).values()) == [plain]


@pytest.mark.parametrize("text", ["", "MB", "12XB", "1,5GB", "-5MB"])
def test_text_that_is_no_size_is_rejected(text: str) -> None:
    with pytest.raises(HeadraceError, match="is not a size"):
        parse_size_bytes(text)


def test_text_that_is_no_duration_is_rejected() -> None:
    with pytest.raises(HeadraceError, match="is not a duration"):
        parse_configs(["retention.ms=1 fortnight"])


def test_first_topic_with_a_mistyped_config_is_rejected_with_the_nearest_config(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data") as broker:
        command = [*COMMAND, "topic", "create", "first", "--config", "retention.mss=5"]
        rejected = subprocess.run(
            [*command, "--bootstrap", broker.bootstrap], capture_output=True, text=True, check=False
        )

    assert rejected.returncode == 1
    assert "did you mean retention.ms?" in rejected.stderr


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("plain é", "plain é".encode()),
        (r"\t\n\r\0\\", b"\t\n\r\0\\"),
        (r"a\x1fb\xFF", b"a\x1fb\xff"),
        ("\udcfe", b"\xfe"),  # an argument that is not UTF-8
    ],
)
def test_escapes_become_bytes(typed: str, meant: bytes) -> None:
    assert unescape(typed, option="--key-separator") == meant


@pytest.mark.parametrize("typed", [r"\q", r"\x1", "ends with \\"])
def test_unknown_escape_is_rejected_with_those_that_exist(typed: str) -> None:
    with pytest.raises(HeadraceError, match=r"--template .* has an unknown escape .*write \\t"):
        unescape(typed, option="--template")
