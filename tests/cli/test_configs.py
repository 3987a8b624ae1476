"""Durations and sizes in configs, without a broker."""

from __future__ import annotations

import pytest

from headrace.cli.addresses import BadArgument
from headrace.cli.configs import parse_configs, parse_size_bytes
from headrace.cli.moments import BadMoment


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
    with pytest.raises(BadMoment, match="is not a duration"):
        parse_configs(["retention.ms=1 fortnight"])
