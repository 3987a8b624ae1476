"""`headrace top` on a real broker, and how it draws."""

from __future__ import annotations

import io
import json
import signal
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from headrace.cli.connecting import connect
from headrace.cli.top.panels import Rates, TopicsPanel, share_rows, sparkline
from headrace.clock import SystemClock
from headrace.pipeline.report.registry import JobState, JobStatus
from headrace.testing import ports
from headrace.testing.manual_clock import ManualClock
from tests.cli.conftest import COMMAND, Headrace, next_line, started


def test_look_has_topics_with_rates_and_groups_with_lag(
    environment: dict[str, str], headrace: Headrace, numbers: str, name: str, producer: Producer
) -> None:
    headrace("group", "seek", name, "--topic", f"{numbers}:0", "--to-offset", "4")
    with started("top", "--format", "json", "--interval", "0.5", environment=environment) as process:
        first = json.loads(next_line(process))
        producer.produce(numbers, "more", partition=1)
        assert producer.flush(60) == 0
        looks = [json.loads(next_line(process)) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)

    assert (process.returncode, err) == (0, "")
    topic = next(each for each in first["topics"] if each["topic"] == numbers)
    assert (topic["partitions"], topic["offsets"], topic["records_per_s"]) == (2, 10, None)
    assert topic["size_bytes"] > 0
    assert any(
        each["topic"] == numbers and each["offsets"] == 11 and each["records_per_s"] > 0
        for look in looks
        for each in look["topics"]
    )
    group = next(each for each in looks[-1]["groups"] if each["group"] == name)
    # Partition 1 has a record, and no commit: it is still to be read.
    assert (group["kind"], group["state"], group["lag"]) == ("consumer", "empty", 7)


def test_internal_topics_and_groups_are_shown_only_when_asked_for(
    headrace: Headrace, numbers: str, name: str
) -> None:
    internal = f"headrace-late.{name}"
    headrace("group", "seek", internal, "--topic", numbers, "--to-latest")

    plain = json.loads(headrace("top", "--count", "1", "--format", "json").out)
    everything = json.loads(headrace("top", "--count", "1", "--format", "json", "--internal").out)

    assert not [each for each in plain["topics"] if each["topic"].startswith("__")]
    assert internal not in [each["group"] for each in plain["groups"]]
    assert "__consumer_offsets" in [each["topic"] for each in everything["topics"]]
    assert internal in [each["group"] for each in everything["groups"]]


def test_queue_is_shown_with_what_is_left(headrace: Headrace, numbers: str, name: str) -> None:
    headrace("queue", "alter", name, "--config", "share.auto.offset.reset=earliest")
    headrace("work", numbers, "--group", name, "--count", "4", "--", "true")

    (look,) = headrace("top", "--count", "1", "--format", "json").lines
    (queue,) = [each for each in json.loads(look)["groups"] if each["group"] == name]

    assert (queue["kind"], queue["lag"]) == ("queue", 6)


def test_job_is_shown_as_it_reports_itself(headrace: Headrace, name: str) -> None:
    now_ms = SystemClock().now_ms()
    job = JobStatus(name=name, state=JobState.RUNNING, pid=1, mode="micro-batch", updated_ms=now_ms, lag=5)
    old = JobStatus(name=f"{name}-old", state=JobState.RUNNING, pid=1, mode="micro-batch", updated_ms=1)
    reports = [json.dumps(json.loads(each.to_json())) for each in (job, old)]
    headrace("produce", "headrace.jobs", stdin="\n".join(["not a report", *reports]) + "\n")

    jobs = json.loads(headrace("top", "--count", "1", "--format", "json").out)["jobs"]

    assert [each for each in jobs if each["name"].startswith(name)] == [json.loads(job.to_json())]
    assert f"{name} running" in headrace("top", "--count", "1").out


@pytest.mark.slow
def test_broker_that_goes_away_is_reported_and_asked_again(tmp_path: Path) -> None:
    listen = f"127.0.0.1:{ports.free_port()}"
    broker = [*COMMAND, "broker", "--data-dir", str(tmp_path / "data"), "--listen", listen]

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(broker, stdout=subprocess.PIPE, text=True)
        next_line(process)
        return process

    running = start()
    try:
        with started("top", "--format", "json", "--interval", "0.1", "--bootstrap", listen) as process:
            assert json.loads(next_line(process))["problem"] is None
            running.kill()
            running.communicate()
            while json.loads(next_line(process))["problem"] is None:
                pass
            running = start()
            while json.loads(next_line(process))["problem"] is not None:
                pass
    finally:
        running.kill()
        running.communicate()


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


def test_rates_are_by_the_time_between_two_looks() -> None:
    clock = ManualClock()
    rates = Rates(clock)

    assert rates.update({"a": 10}) == {"a": None}
    clock.advance_ms(2_000)
    assert rates.update({"a": 30, "b": 5}) == {"a": 10.0, "b": None}
    clock.advance_ms(1_000)
    assert rates.update({"a": 3, "b": 5}) == {"a": 0.0, "b": 0.0}


def test_screen_with_little_room_shows_the_busiest_and_says_how_many_more(
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
