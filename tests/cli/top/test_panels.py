"""What the panels show, and how the screen is divided between them."""

from __future__ import annotations

import io
import json

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from headrace.cli.command import connect
from headrace.cli.top.panels import Rates, TopicsPanel, share_rows, sparkline
from headrace.testing.manual_clock import ManualClock
from tests.cli.conftest import Headrace


@pytest.mark.parametrize(
    ("numbers", "drawn"),
    [([], ""), ([0, 0], ""), ([1, 1], "██"), ([0, 1, 2, 4, 8], "▁▂▃▅█")],
)
def test_sparkline_is_relative_to_its_largest_number(numbers: list[float], drawn: str) -> None:
    assert sparkline(numbers) == drawn


@pytest.mark.parametrize(
    ("wanted", "room", "shares"),
    [
        ([2, 3, 1], 30, [2, 3, 1]),
        ([25, 1, 0], 15, [13, 1, 1]),
        ([25, 40, 2], 20, [9, 9, 2]),
        ([5, 5], 0, [1, 1]),
    ],
)
def test_panels_share_the_rows_of_the_screen(wanted: list[int], room: int, shares: list[int]) -> None:
    assert share_rows(wanted, room) == shares


def test_rates_are_by_the_time_between_two_samples() -> None:
    clock = ManualClock()
    rates = Rates(clock)

    assert rates.update({"a": 10}) == {"a": None}
    clock.advance_ms(2_000)
    assert rates.update({"a": 30, "b": 5}) == {"a": 10.0, "b": None}
    clock.advance_ms(1_000)
    assert rates.update({"a": 3, "b": 5}) == {"a": 0.0, "b": 0.0}


def test_screen_with_little_room_shows_the_busiest_and_the_number_of_others(
    bootstrap: str, topic: str, admin: AdminClient, producer: Producer, name: str
) -> None:
    admin.create_topics([NewTopic(f"{name}-idle", 1, 1)])[f"{name}-idle"].result(timeout=60)
    clock = ManualClock()
    panel = TopicsPanel(connect(bootstrap), clock)
    panel.sample()
    producer.produce(topic, "x")
    assert producer.flush(60) == 0
    clock.advance_ms(1_000)
    panel.sample()

    console = Console(width=100, record=True, file=io.StringIO())
    console.print(panel.render(rows_max=1))
    drawn = console.export_text().splitlines()

    assert drawn[2].startswith(topic)
    assert drawn[2].rstrip().endswith("█")
    assert drawn[3] == f"… and {len(panel.rows) - 1} more topics"


def test_queue_is_shown_with_the_messages_that_are_not_done(
    headrace: Headrace, numbers: str, name: str
) -> None:
    headrace("queue", "alter", name, "--config", "share.auto.offset.reset=earliest")
    headrace("work", numbers, "--group", name, "--count", "4", "--", "true")

    (sample,) = headrace("top", "--count", "1", "--format", "json").lines
    (queue,) = [each for each in json.loads(sample)["groups"] if each["group"] == name]

    assert (queue["kind"], queue["lag"]) == ("queue", 6)
