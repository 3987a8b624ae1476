"""Commands and replies as records, for those that are sent through a topic."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from headrace.events.decisions import Command
from headrace.events.records import (
    CORRELATION_ID,
    ID,
    TYPE,
    Fields,
    InRecord,
    OutRecord,
    headers_of,
)

EXPECTED_VERSION = "expected-version"
REPLY_PARTITION = "reply-partition"


class Reply(Struct, frozen=True, kw_only=True):
    """The outcome of a command. `reason` is set if it was rejected; `is_error` if deciding it failed."""

    command_id: str
    aggregate_id: str
    version: int
    reason: str | None = None
    is_error: bool = False
    is_repeated: bool = False


def command_record(topic: str, command: Command, *, partition: int, reply_partition: int | None) -> OutRecord:
    fields: dict[str, str | int] = {
        TYPE: command.type,
        ID: command.id,
        CORRELATION_ID: command.correlation_id,
    }
    if command.expected_version is not None:
        fields[EXPECTED_VERSION] = command.expected_version
    if reply_partition is not None:
        fields[REPLY_PARTITION] = reply_partition
    return OutRecord(
        topic=topic,
        key=command.aggregate_id.encode(),
        value=command.data,
        headers=headers_of(fields),
        timestamp_ms=0,
        partition=partition,
    )


def read_command(record: InRecord) -> tuple[Command, int | None]:
    """The command, and the partition for the reply. EventsError if the record is no command."""
    fields = Fields(record, "a command")
    expected = fields.number(EXPECTED_VERSION) if EXPECTED_VERSION in record.headers else None
    reply_partition = fields.number(REPLY_PARTITION) if REPLY_PARTITION in record.headers else None
    command = Command(
        aggregate_id=fields.key(),
        id=fields.text(ID),
        type=fields.text(TYPE),
        data=record.value or b"",
        correlation_id=fields.text(CORRELATION_ID, ""),
        expected_version=expected,
    )
    return command, reply_partition


def bad_command(record: InRecord) -> Command:
    """A record that is no command, as far as it can be kept. Its id is its place in the topic."""
    return Command(
        aggregate_id=(record.key or b"").decode(errors="replace"),
        id=f"{record.topic}-{record.partition}@{record.offset}",
        type=record.headers.get(TYPE, b"").decode(errors="replace") or "unknown",
        data=record.value or b"",
    )


def reply_record(topic: str, reply: Reply, *, partition: int, timestamp_ms: int) -> OutRecord:
    return OutRecord(
        topic=topic,
        key=reply.command_id.encode(errors="replace"),
        value=msgspec.json.encode(reply),
        headers=(),
        timestamp_ms=timestamp_ms,
        partition=partition,
    )


def read_reply(value: bytes) -> Reply | None:
    """None for a record that is no reply."""
    try:
        return msgspec.json.decode(value, type=Reply)
    except msgspec.MsgspecError:
        return None
