"""`headrace work`: one command per message, settled by its exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.kafka.cluster import Cluster
from headrace.queue import Queue
from tests.cli.conftest import Headrace, next_line, started

TIMEOUT_S = 60.0


def send(producer: Producer, topic: str, *values: str, **options: object) -> None:
    for value in values:
        producer.produce(topic, value, partition=0, **options)  # type: ignore[arg-type]
    assert producer.flush(30) == 0


@pytest.fixture
def topic(admin: AdminClient, name: str) -> str:
    """With one partition, as a queue should be: members of a group may divide several among themselves."""
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(TIMEOUT_S)
    return name


@pytest.fixture
def script(tmp_path: Path) -> str:
    """Does what the message says: `exit 75`, `echo it; sleep 1`."""
    path = tmp_path / "do.sh"
    path.write_text('#!/bin/sh\neval "$(cat)"\n')
    path.chmod(0o755)
    return str(path)


def test_exit_0_accepts_75_releases_and_anything_else_rejects(
    headrace: Headrace, producer: Producer, topic: str, script: str
) -> None:
    send(producer, topic, "exit 0", '[ "$HEADRACE_DELIVERY_COUNT" = 2 ] || exit 75', "echo noise; exit 3")
    ran = headrace("work", topic, "--group", topic, "--count", "4", "--", script)
    assert "4 messages" in ran.err
    assert "2 accepted, 1 released, 1 rejected" in ran.err
    assert ran.out == "noise\n"


def test_last_line_of_standard_error_is_the_reason(
    headrace: Headrace, producer: Producer, topic: str, script: str
) -> None:
    send(producer, topic, "echo connecting >&2; echo no such mailbox >&2; exit 1")
    ran = headrace("work", topic, "--group", topic, "--count", "1", "--", script)
    assert "connecting\nno such mailbox\n" in ran.err
    assert "no such mailbox" in headrace("queue", "dead", "list", topic).out


def test_command_is_told_all_of_its_message(headrace: Headrace, producer: Producer, topic: str) -> None:
    headers = {"trace-id": "abc", "nothing": None}
    send(producer, topic, "the value", key="the key", timestamp=1_700_000_000_123, headers=headers)
    command = ["sh", "-c", "cat; echo; env | grep ^HEADRACE_ | sort"]
    ran = headrace("work", topic, "--group", f"{topic}-g", "--count", "1", "--", *command)
    told = dict(line.split("=", 1) for line in ran.lines[1:] if not line.startswith("HEADRACE_TEST_"))
    told.pop("HEADRACE_BOOTSTRAP")
    assert ran.lines[0] == "the value"
    assert told == {
        "HEADRACE_TOPIC": topic,
        "HEADRACE_PARTITION": "0",
        "HEADRACE_OFFSET": "0",
        "HEADRACE_KEY": "the key",
        "HEADRACE_TIMESTAMP_MS": "1700000000123",
        "HEADRACE_DELIVERY_COUNT": "1",
        "HEADRACE_GROUP": f"{topic}-g",
        "HEADRACE_HEADER_TRACE_ID": "abc",
    }


def test_commands_run_beside_each_other(
    headrace: Headrace, producer: Producer, topic: str, script: str, tmp_path: Path
) -> None:
    """Each waits for the other's file: one at a time they would never end."""
    wait = "touch {mine}; while [ ! -e {other} ]; do sleep 0.02; done"
    names = {"mine": tmp_path / "a", "other": tmp_path / "b"}
    send(producer, topic, wait.format(**names), wait.format(mine=names["other"], other=names["mine"]))
    ran = headrace(
        "work",
        topic,
        "--group",
        topic,
        "--concurrency",
        "2",
        "--count",
        "2",
        "--time-limit",
        "25s",
        "--",
        script,
    )
    assert "2 accepted" in ran.err


def test_command_over_its_time_is_ended_with_what_it_started_and_its_message_released(
    headrace: Headrace, producer: Producer, topic: str, script: str, tmp_path: Path
) -> None:
    ended = tmp_path / "ended"
    send(producer, topic, f"(trap 'touch {ended}; exit' TERM; sleep 1000 & wait) & wait")
    ran = headrace("work", topic, "--group", topic, "--count", "1", "--time-limit", "1s", "--", script)
    assert f"headrace: {topic}-0@0: the command took longer than 1 s (--time-limit) and was ended" in ran.err
    assert "1 released (1 over the time limit)" in ran.err
    deadline_s = time.monotonic() + TIMEOUT_S
    while not ended.exists():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def test_ctrl_c_lets_running_commands_finish_and_gives_the_rest_back(
    environment: dict[str, str], bootstrap: str, producer: Producer, topic: str, script: str, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    send(producer, topic, f"echo begun; while [ ! -e {go_on} ]; do sleep 0.02; done; echo finished", "exit 0")
    with started("work", topic, "--group", topic, "--", script, environment=environment) as work:
        assert next_line(work) == "begun\n"
        # As a terminal does: to everything in the foreground.
        work.send_signal(signal.SIGINT)
        go_on.touch()
        out, err = work.communicate(timeout=TIMEOUT_S)
    assert (out, work.returncode) == ("finished\n", 0)
    assert "1 messages" in err
    with Queue(topic, group=topic, bootstrap=bootstrap) as queue:
        left = queue.get(timeout=TIMEOUT_S)
        assert left is not None
        assert left.value == b"exit 0"
        left.accept()


def test_second_ctrl_c_ends_running_commands_and_releases_their_messages(
    environment: dict[str, str], bootstrap: str, producer: Producer, topic: str, script: str
) -> None:
    send(producer, topic, "echo begun; sleep 1000")
    with started("work", topic, "--group", topic, "--", script, environment=environment) as work:
        assert next_line(work) == "begun\n"
        work.send_signal(signal.SIGINT)
        while work.poll() is None:
            try:
                work.wait(0.2)
            except subprocess.TimeoutExpired:
                work.send_signal(signal.SIGINT)
        assert work.stderr is not None
        assert "1 released" in work.stderr.read()
    with Queue(topic, group=topic, bootstrap=bootstrap) as queue:
        again = queue.get(timeout=TIMEOUT_S)
        assert again is not None
        assert again.delivery_count == 2
        again.accept()


def test_message_of_a_killed_pool_goes_to_another(
    environment: dict[str, str],
    admin: AdminClient,
    bootstrap: str,
    producer: Producer,
    topic: str,
    script: str,
) -> None:
    Cluster(bootstrap, timeout_s=TIMEOUT_S).alter_configs(
        "group", topic, {"share.record.lock.duration.ms": "2000"}
    )
    send(producer, topic, "echo $$; exec sleep 30")
    with started("work", topic, "--group", topic, "--", script, environment=environment) as work:
        command_pid = int(next_line(work))
        work.kill()
    try:
        with Queue(topic, group=topic, bootstrap=bootstrap) as queue:
            again = queue.get(timeout=TIMEOUT_S)
            assert again is not None
            assert again.delivery_count == 2
            again.accept()
    finally:
        os.kill(command_pid, signal.SIGKILL)


def test_pattern_takes_the_place_of_the_topic(headrace: Headrace, producer: Producer, topic: str) -> None:
    send(producer, topic, "hello")
    ran = headrace("work", "--pattern", f"{topic}.*", "--group", topic, "--count", "1", "--", "cat")
    assert ran.out == "hello"


def test_pool_stops_when_nothing_comes(headrace: Headrace, topic: str) -> None:
    ran = headrace("work", topic, "--group", topic, "--stop-when-idle", "200ms", "--", "cat")
    assert "0 messages" in ran.err


def test_command_that_is_not_there_is_refused_before_any_message_is_taken(
    headrace: Headrace, topic: str
) -> None:
    ran = headrace("work", topic, "--group", topic, "--", "./no-such-command", code=1)
    assert "there is no command ./no-such-command" in ran.err


def test_topic_that_is_not_there_is_refused(headrace: Headrace, name: str) -> None:
    assert f"there is no topic {name}" in headrace("work", name, "--group", name, "--", "cat", code=1).err


def test_missing_command_is_wrong_usage(headrace: Headrace, name: str) -> None:
    assert "give a command" in headrace("work", name, "--group", name, code=2).err
