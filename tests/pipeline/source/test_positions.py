"""Start and end positions: as the user gives them, as Spark takes them, as the broker knows them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from headrace.errors import HeadraceError
from headrace.pipeline.errors import BadSource
from headrace.pipeline.source import positions
from headrace.pipeline.source.offsets import EARLIEST, Offsets
from headrace.pipeline.source.positions import TopicsOnBroker, check, streaming_start_options
from tests.pipeline.source.test_spec import SPEC

AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("position", ["earliest", "latest", AT, {"clicks": {0: 17}}])
def test_name_time_and_offsets_are_positions(position: Any) -> None:
    check(position, name="start")


@pytest.mark.parametrize(
    "position",
    ["yesterday", 17, {}, {"clicks": 17}, {"clicks": {"0": 17}}, datetime(2026, 1, 1)],  # noqa: DTZ001
)
def test_anything_else_is_rejected_with_the_name_of_the_argument(position: Any) -> None:
    with pytest.raises(BadSource, match=r"^start=") as error:
        check(position, name="start")
    assert error.value.hint


@pytest.mark.parametrize(
    ("start", "options"),
    [
        ("latest", {"startingOffsets": "latest"}),
        (AT, {"startingTimestamp": "1767225600000", "startingOffsetsByTimestampStrategy": "latest"}),
    ],
)
def test_broker_is_not_needed_for_a_name_or_a_time(start: Any, options: dict[str, str]) -> None:
    def find() -> Offsets:
        raise AssertionError("no request is needed")

    assert streaming_start_options(start, find_partitions=find) == options


def test_partitions_without_an_offset_are_read_from_the_earliest() -> None:
    everywhere = {"clicks": {0: EARLIEST, 1: EARLIEST}, "views": {0: EARLIEST}}
    options = streaming_start_options({"clicks": {1: 17}}, find_partitions=lambda: everywhere)
    expected = {"clicks": {"0": EARLIEST, "1": 17}, "views": {"0": EARLIEST}}
    assert json.loads(options["startingOffsets"]) == expected
    with pytest.raises(BadSource, match="start names partition 2 of clicks"):
        streaming_start_options({"clicks": {2: 17}}, find_partitions=lambda: everywhere)


def test_unreachable_broker_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "BROKER_TIMEOUT_S", 0.5)
    with pytest.raises(HeadraceError, match=r"127\.0\.0\.1:1: .*headrace broker"):
        TopicsOnBroker(replace(SPEC, bootstrap="127.0.0.1:1")).partitions()
