"""`headrace work`: one command per message, acknowledged by its exit code."""

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
from tests.cli.queue.conftest import TIMEOUT_S
from tests.compatibility.brokers import BrokerUnderTest

SIGNAL_S = 1.0
"""Within which a process on a busy machine has handled a signal; nothing that it prints shows it."""


def send(producer: Producer, topic: str, *values: str, **options: object) -> None:
    for value in values:
        producer.produce(topic, value, partition=0, **options)  # type: ignore[arg-type]
    assert producer.flush(30) == 0


@pytest.fixture
def topic(admin: AdminClient, name: str) -> str:
    """With one partition, as a queue should be: members of a group may divide several among themselves."""
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(TIMEOUT_S)
    return name


def test_exit_0_accepts_75_releases_and_anything_else_rejects(
    headrace: Headrace, producer: Producer, topic: str, script: str
) -> None:
    send(producer, topic, "exit 0", '[ "$HEADRACE_DELIVERY_COUNT" = 2 ] || exit 75', "echo noise; exit 3")
    ran = headrace("work", topic, "--group", topic, "--count", "4", "--", script)
    assert "4 messages" in ran.err
    assert "2 accepted, 1 released, 1 rejected" in ran.err
    assert ran.out == "noise\n"


def test_commands_run_concurrently(
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


def test_ctrl_c_lets_running_commands_finish_and_releases_the_other_messages(
    environment: dict[str, str], bootstrap: str, producer: Producer, topic: str, script: str, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    send(
        producer, topic, f"echo started; while [ ! -e {go_on} ]; do sleep 0.02; done; echo finished", "exit 0"
    )
    with started("work", topic, "--group", topic, "--", script, environment=environment) as work:
        assert next_line(work) == "started\n"
        # As a terminal does: to everything in the foreground.
        work.send_signal(signal.SIGINT)
        time.sleep(SIGNAL_S)
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
    send(producer, topic, "echo started; sleep 1000")
    with started("work", topic, "--group", topic, "--", script, environment=environment) as work:
        assert next_line(work) == "started\n"
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


def test_message_of_a_killed_pool_is_redelivered_to_another(
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


def test_pattern_replaces_the_topic(headrace: Headrace, producer: Producer, topic: str) -> None:
    send(producer, topic, "hello")
    ran = headrace("work", "--pattern", f"{topic}.*", "--group", topic, "--count", "1", "--", "cat")
    assert ran.out == "hello"


def test_pool_stops_when_idle(headrace: Headrace, topic: str) -> None:
    ran = headrace("work", topic, "--group", topic, "--stop-when-idle", "200ms", "--", "cat")
    assert "0 messages" in ran.err


def test_missing_command_is_rejected_before_any_message_is_delivered(headrace: Headrace, topic: str) -> None:
    ran = headrace("work", topic, "--group", topic, "--", "./no-such-command", code=1)
    assert "there is no command ./no-such-command" in ran.err


def test_missing_topic_is_rejected(headrace: Headrace, name: str) -> None:
    assert f"there is no topic {name}" in headrace("work", name, "--group", name, "--", "cat", code=1).err


def test_call_without_a_command_is_wrong_usage(headrace: Headrace, name: str) -> None:
    assert "give a command" in headrace("work", name, "--group", name, code=2).err


def test_ordered_pool_makes_its_group_ordered(
    headrace: Headrace, producer: Producer, topic: str, script: str, broker: BrokerUnderTest
) -> None:
    if broker.kind != "headrace":
        pytest.skip("only Headrace's broker orders messages by key")
    send(producer, topic, "sleep 0.1; echo first", "echo second", key="k")
    options = ("--group", topic, "--ordered", "--concurrency", "2", "--count", "2")
    assert headrace("work", topic, *options, "--", script).out == "first\nsecond\n"
    assert "ordered by key" in headrace("queue", "describe", topic).out


def test_request_gets_the_output_of_the_command(
    headrace: Headrace, environment: dict[str, str], topic: str, script: str
) -> None:
    arguments = ("work", topic, "--group", topic, "--count", "2", "--", script)
    with started(*arguments, environment=environment) as work:
        assert headrace("queue", "request", topic, "echo 17").out == "17\n"
        failed = headrace("queue", "request", topic, "echo no such item >&2; exit 1", code=1)
        assert "rejected the request: no such item" in failed.err
        out, err = work.communicate(timeout=TIMEOUT_S)
    assert (out, work.returncode) == ("", 0), "the output is the reply"
    assert "1 accepted, 0 released, 1 rejected" in err
