"""Messages as values of the log."""

from __future__ import annotations

import msgspec

from headrace.alerts.message import Message, Waiting, decoded
from tests.alerts.targets.messages import firing


def test_message_survives_the_log() -> None:
    waiting = Waiting(message=firing(), target="t")
    found = msgspec.json.decode(msgspec.json.encode(waiting), type=Waiting)
    assert (found.id, found.message.firing[0].record) == (("a1-7", "t"), {"level": "ERROR"})


def test_cut_counts_what_is_not_listed() -> None:
    message = firing()
    more = Message(**{**msgspec.structs.asdict(message), "firing_count": 5, "resolved_count": 2})
    assert (message.cut, more.cut) == (0, 6)


def test_record_that_is_no_json_is_shown_as_text() -> None:
    assert [decoded(text) for text in ("", '{"a":1}', "{")] == [None, {"a": 1}, "{"]
