"""`headrace consume` on a real broker."""

from __future__ import annotations

import signal
import time

from confluent_kafka import Producer

from tests.cli.conftest import Headrace, next_line, started


def test_reads_to_the_end_and_stops(headrace: Headrace, numbers: str) -> None:
    assert headrace("consume", numbers).lines == [str(number) for number in range(10)]
    assert headrace("consume", numbers, "--from-beginning").lines == [str(number) for number in range(10)]


def test_empty_topic_ends_immediately(headrace: Headrace, topic: str) -> None:
    assert headrace("consume", topic).out == ""


def test_starts_a_duration_ago(headrace: Headrace, topic: str, producer: Producer) -> None:
    now_ms = int(time.time() * 1000)
    for age_h in (3, 1):
        producer.produce(topic, f"{age_h} h", partition=0, timestamp=now_ms - age_h * 3_600_000)
    assert producer.flush(60) == 0

    assert headrace("consume", topic, "--from-time", "2h").lines == ["1 h"]
    assert "is not a time" in headrace("consume", topic, "--from-time", "2 fortnights", code=1).err


def test_template_with_an_unknown_code_is_rejected(headrace: Headrace, topic: str) -> None:
    rejected = headrace("consume", topic, "-f", "%x", code=1)
    assert "unknown code %x" in rejected.err
    assert "%s %S %R" in rejected.err
    assert "unknown escape \\q" in headrace("consume", topic, "-f", "\\q", code=1).err


def test_records_produced_with_keys_are_read_with_keys(headrace: Headrace, topic: str) -> None:
    headrace("produce", topic, "--key-separator", ":", "--partition", "0", stdin="a:1\nb:2\n")

    assert headrace("consume", topic, "--key-separator", ":").lines == ["a:1", "b:2"]


def test_follow_shows_new_records_until_interrupted(
    headrace: Headrace, numbers: str, environment: dict[str, str]
) -> None:
    with started("consume", numbers, "--follow", "--last", "1", environment=environment) as process:
        assert next_line(process) == "9\n"
        headrace("produce", numbers, "--partition", "0", stdin="new\n")
        assert next_line(process) == "new\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)

    assert process.returncode == 130
    assert err == ""


def test_closed_pipe_is_no_failure(environment: dict[str, str], headrace: Headrace, topic: str) -> None:
    headrace("produce", topic, stdin="a line of text\n" * 50_000)
    with started("consume", topic, environment=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert next_line(process) == "a line of text\n"
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(60) == 0


def test_contradicting_options_are_wrong_usage(headrace: Headrace, topic: str) -> None:
    assert "give one of" in headrace("consume", topic, "--offset", "1", "--last", "1", code=2).err
    assert "not both" in headrace("consume", topic, "--group", "g", "--partition", "1", code=2).err


def test_unknown_topic_is_not_created_by_reading_it(headrace: Headrace, name: str) -> None:
    assert f"there is no topic {name}" in headrace("consume", name, code=1).err
    assert name not in headrace("topic", "list").out
