"""Durations, sizes and mistyped names in configs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from headrace import Broker
from headrace.cli.addresses import BadArgument
from headrace.cli.topic.configs import parse_configs, parse_size_bytes
from headrace.durations import BadDuration
from tests.cli.conftest import COMMAND


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
def test_text_that_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(BadArgument, match="is not a size"):
        parse_size_bytes(text)


def test_text_that_is_no_duration_is_refused() -> None:
    with pytest.raises(BadDuration, match="is not a duration"):
        parse_configs(["retention.ms=1 fortnight"])


def test_first_topic_with_a_mistyped_config_is_refused_with_the_one_that_was_meant(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data") as broker:
        command = [*COMMAND, "topic", "create", "first", "--config", "retention.mss=5"]
        refused = subprocess.run(
            [*command, "--bootstrap", broker.bootstrap], capture_output=True, text=True, check=False
        )

    assert refused.returncode == 1
    assert "did you mean retention.ms?" in refused.stderr
