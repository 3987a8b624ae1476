"""The completions that a shell gets."""

from __future__ import annotations

import subprocess

import pytest

from tests.cli.conftest import COMMAND, Headrace


def completed(environment: dict[str, str], words: str) -> list[str]:
    """What bash is offered for the last word."""
    asked = {
        "_HEADRACE_COMPLETE": "complete_bash",
        "COMP_WORDS": f"headrace {words}",
        "COMP_CWORD": str(words.count(" ") + 1),
    }
    done = subprocess.run(
        COMMAND, capture_output=True, text=True, env={**environment, **asked}, timeout=60, check=False
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_commands_and_options_are_completed(environment: dict[str, str]) -> None:
    assert completed(environment, "to") == ["topic", "top"]
    assert completed(environment, "group s") == ["seek"]
    assert completed(environment, "consume --fr") == ["--from-beginning", "--from-time"]


@pytest.mark.parametrize(
    "words", ["consume {}", "produce {}", "topic describe {}", "topic delete {}", "group seek g --topic {}"]
)
def test_topics_are_completed(environment: dict[str, str], topic: str, words: str) -> None:
    assert completed(environment, words.format(topic[:-1])) == [topic]


@pytest.mark.parametrize("words", ["consume t --group {}", "group describe {}", "group seek {}"])
def test_groups_are_completed(
    environment: dict[str, str], headrace: Headrace, numbers: str, name: str, words: str
) -> None:
    headrace("group", "seek", name, "--topic", numbers, "--to-earliest")

    assert completed(environment, words.format(name[:-1])) == [name]


def test_internal_topics_are_completed_only_once_their_underscore_is_typed(
    environment: dict[str, str], headrace: Headrace, numbers: str, name: str
) -> None:
    headrace("consume", numbers, "--group", name)

    assert "__consumer_offsets" not in completed(environment, "consume ")
    assert "__consumer_offsets" in completed(environment, "consume __c")


def test_without_a_broker_nothing_is_completed_and_nothing_printed(
    environment: dict[str, str], free_port: int
) -> None:
    without = {**environment, "HEADRACE_BOOTSTRAP": f"127.0.0.1:{free_port}"}

    assert completed(without, "consume c") == []
