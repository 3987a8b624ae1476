"""A command for a message: its environment, and the acknowledgement by its exit code. No broker is involved."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import AcknowledgeType
from confluent_kafka import Message as KafkaMessage

from headrace.cli.queue.work_command import ENVIRONMENT_VALUE_BYTES_MAX, Commands, environment
from headrace.errors import HeadraceError
from headrace.queue import AlreadyAcknowledged, Message, MessageNotStored
from headrace.queue.message import Acknowledges
from headrace.queue.reply_to import ReplyTo


class Acknowledged:
    """Keeps the acknowledgements that a queue would send."""

    def __init__(self, *, is_late: bool = False) -> None:
        self.outcomes: list[tuple[str, str]] = []
        self._is_late = is_late

    def acknowledge(self, message: Message, how: AcknowledgeType, reason: str) -> None:
        if self._is_late:
            raise AlreadyAcknowledged("the lock has ended")
        self.outcomes.append((how.name, reason))

    def reply(self, message: Message, value: bytes | str | None) -> None:
        if value == b"too large\n":
            raise MessageNotStored("the reply was not stored")
        self.outcomes.append(("REPLY", str(value)))


def message(value: str, queue: Acknowledges | None = None, **fields: Any) -> Message:
    raw = KafkaMessage(
        topic="jobs", partition=2, offset=7, value=value.encode(), timestamp=(1, 1_700_000_000_123), **fields
    )
    return Message(queue or Acknowledged(), cast("Any", None), raw, locked_until_s=0)


def run(commands: Commands, value: str) -> list[tuple[str, str]]:
    queue = Acknowledged()
    commands.handle(message(value, queue))
    return queue.outcomes


@pytest.mark.parametrize(
    ("value", "outcome", "total"),
    [
        ("exit 0", ("ACCEPT", ""), "1 accepted, 0 released, 0 rejected"),
        ("echo noise >&2; exit 0", ("ACCEPT", ""), "1 accepted, 0 released, 0 rejected"),
        ("exit 75", ("RELEASE", ""), "0 accepted, 1 released, 0 rejected"),
        ("echo busy >&2; exit 75", ("RELEASE", "busy"), "0 accepted, 1 released, 0 rejected"),
        ("kill -9 $$", ("RELEASE", "ended by signal 9"), "0 accepted, 1 released, 0 rejected"),
        ("exit 3", ("REJECT", "exit code 3"), "0 accepted, 0 released, 1 rejected"),
        (
            "echo connecting >&2; echo no such mailbox >&2; echo >&2; exit 1",
            ("REJECT", "no such mailbox"),
            "0 accepted, 0 released, 1 rejected",
        ),
    ],
)
def test_exit_code_acknowledges_the_message_with_the_last_line_of_standard_error(
    script: str, value: str, outcome: tuple[str, str], total: str
) -> None:
    commands = Commands([script], group="g", time_limit_s=60)

    assert run(commands, value) == [outcome]
    assert commands.progress() == f"0 running, {total}"
    assert commands.summary().startswith("1 messages in ")


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        ("echo 17", ("REPLY", "b'17\\n'")),
        ("echo too large", ("REJECT", "the reply was not stored")),
        ("echo no; echo no such item >&2; exit 1", ("REJECT", "no such item")),
    ],
)
def test_standard_output_is_the_reply_to_a_request(script: str, value: str, outcome: tuple[str, str]) -> None:
    queue = Acknowledged()
    headers = ReplyTo("client/1", 0, 2_000_000_000_000).headers()
    commands = Commands([script], group="g", time_limit_s=30)
    commands.handle(message(value, queue, headers=headers))
    assert queue.outcomes == [outcome]


def test_standard_error_is_passed_on(script: str, capfd: pytest.CaptureFixture[str]) -> None:
    run(Commands([script], group="g", time_limit_s=60), "echo out; echo one >&2; echo two >&2; exit 1")

    assert capfd.readouterr() == ("out\n", "one\ntwo\n")


def test_command_over_the_time_limit_is_ended_and_its_message_released(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = Commands([script], group="g", time_limit_s=0.1)

    assert run(commands, "sleep 1000") == [("RELEASE", "took longer than 0.1 s")]
    note = "headrace: jobs-2@7: the command took longer than 0.1 s (--time-limit) and was ended"
    assert note in capsys.readouterr().err
    assert commands.progress().endswith("1 released (1 over the time limit), 0 rejected")


def test_end_ends_running_commands_with_their_processes_and_those_that_start_later(
    script: str, tmp_path: Path
) -> None:
    ready, ended = tmp_path / "ready", tmp_path / "ended"
    value = f"(trap 'touch {ended}; exit' TERM; touch {ready}; sleep 1000 & wait) & wait"
    commands = Commands([script], group="g", time_limit_s=600)
    queue = Acknowledged()
    running = threading.Thread(target=commands.handle, args=(message(value, queue),))
    running.start()
    while not ready.exists():
        pass
    commands.end()
    running.join()
    while not ended.exists():
        pass

    assert run(commands, "sleep 1000") == queue.outcomes == [("RELEASE", "ended by signal 15")]


def test_message_whose_lock_has_ended_is_counted_as_gone(script: str) -> None:
    commands = Commands([script], group="g", time_limit_s=60)
    commands.handle(message("exit 0", Acknowledged(is_late=True)))

    assert commands.progress() == "0 running, 0 accepted, 0 released, 0 rejected, 1 gone"


def test_command_that_cannot_be_run_ends_the_pool(tmp_path: Path) -> None:
    path = tmp_path / "no-interpreter"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)

    with pytest.raises(HeadraceError, match=r"can't be run: .*does the script start with #!"):
        run(Commands([str(path)], group="g", time_limit_s=60), "")


def test_environment_has_all_of_the_message_but_its_value() -> None:
    headers = [("trace-id", b"abc"), ("nothing", None)]

    assert environment(message("v", key=b"the key", headers=headers), "g") == {
        "HEADRACE_TOPIC": "jobs",
        "HEADRACE_PARTITION": "2",
        "HEADRACE_OFFSET": "7",
        "HEADRACE_KEY": "the key",
        "HEADRACE_TIMESTAMP_MS": "1700000000123",
        "HEADRACE_DELIVERY_COUNT": "1",
        "HEADRACE_GROUP": "g",
        "HEADRACE_HEADER_TRACE_ID": "abc",
    }


@pytest.mark.parametrize(
    ("content", "is_set"),
    [
        (b"\xff not UTF-8", True),
        (b"x" * ENVIRONMENT_VALUE_BYTES_MAX, True),
        (b"x" * (ENVIRONMENT_VALUE_BYTES_MAX + 1), False),
        (b"a\0b", False),
    ],
    ids=["not-utf8", "longest", "too-long", "zero-byte"],
)
def test_content_that_a_variable_cannot_hold_is_skipped(content: bytes, is_set: bool) -> None:
    variables = environment(message("v", headers=[("h", content)]), "g")

    assert ("HEADRACE_HEADER_H" in variables) is is_set
    if is_set:
        show = "import os, sys; sys.stdout.buffer.write(os.environb[b'HEADRACE_HEADER_H'])"
        shown = subprocess.run(
            [sys.executable, "-c", show], env={**os.environ, **variables}, capture_output=True, check=True
        )
        assert shown.stdout == content
