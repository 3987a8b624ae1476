"""What lists of dead letters show of long and binary content."""

from __future__ import annotations

import pytest

from headrace.cli.letters import LIST_MAX, TEXT_CHARACTERS_MAX, list_letters
from headrace.queue.dead_letters import DeadLetters
from tests.compatibility.topic_contents import write
from tests.queue.job_letters import job_letter


def test_list_shows_short_texts_and_tells_that_there_are_more(
    bootstrap: str, topic: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    long = {**job_letter(name, topic, 0, reason="r" * 500), "value": b"\xff\n" + b"v" * 500}
    write(
        bootstrap,
        f"dlq.{name}",
        [long, *(job_letter(name, topic, offset) for offset in range(1, LIST_MAX + 1))],
    )
    letters = DeadLetters(name, bootstrap=bootstrap)

    list_letters(letters, None, everything=False, format="text")

    shown = capsys.readouterr()
    assert "r" * (TEXT_CHARACTERS_MAX - 1) + "…" in shown.out
    assert "\\xff vvv" in shown.out
    assert f"bad {LIST_MAX}" not in shown.out
    assert f"({LIST_MAX + 1} letters in all)" in shown.err

    list_letters(letters, None, everything=True, format="text")
    assert f"bad {LIST_MAX}" in capsys.readouterr().out
