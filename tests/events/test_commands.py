from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.events import EventsError, Reply
from headrace.events.commands import bad_command, command_record, read_command, read_reply, reply_record
from headrace.events.decisions import Command
from tests.events.test_partition import read_back

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
COMMAND = Command(aggregate_id="ada", id="c1", type="Deposit", data=b"{}")


@given(
    st.builds(
        Command,
        aggregate_id=TEXT,
        id=TEXT,
        type=TEXT,
        data=st.binary(),
        correlation_id=TEXT,
        expected_version=st.none() | st.integers(0, 2**40),
    ),
    st.none() | st.integers(0, 100),
)
def test_command_survives_its_record(command: Command, reply_partition: int | None) -> None:
    record = command_record("t", command, partition=3, reply_partition=reply_partition)
    assert record.partition == 3
    assert read_command(read_back(record)) == (command, reply_partition)


@pytest.mark.parametrize(
    "changed",
    [{"key": None}, {"headers": {}}, {"headers": {"id": b"c1", "type": b"a", "expected-version": b"x"}}],
)
def test_record_that_is_no_command_is_an_error(changed: dict[str, object]) -> None:
    record = read_back(command_record("t", COMMAND, partition=0, reply_partition=None))
    with pytest.raises(EventsError, match="t-0@9 is not a command"):
        read_command(msgspec.structs.replace(record, **changed))


def test_record_that_is_no_command_is_kept_by_its_place() -> None:
    record = read_back(command_record("t", COMMAND, partition=0, reply_partition=None))
    kept = bad_command(msgspec.structs.replace(record, key=b"\xff", headers={}, value=None))
    assert (kept.id, kept.aggregate_id, kept.type, kept.data) == ("t-0@9", "\ufffd", "unknown", b"")


def test_reply_survives_its_record() -> None:
    reply = Reply(command_id="c1", aggregate_id="ada", version=3, reason="no", is_repeated=True)
    record = reply_record("t", reply, partition=2, timestamp_ms=1)
    assert (read_reply(record.value or b""), record.partition) == (reply, 2)


@pytest.mark.parametrize("value", [b"", b"{}", b"\xff", b"[]"])
def test_record_that_is_no_reply_is_none(value: bytes) -> None:
    assert read_reply(value) is None
