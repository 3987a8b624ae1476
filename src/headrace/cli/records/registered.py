"""Records with the id of a registered schema on the command line: read as JSON, and written from JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from headrace.cli.output import note
from headrace.cli.records.consume_output import ContentFormat, Writer, plain_bytes
from headrace.errors import HeadraceError
from headrace.kafka.settings import client_settings
from headrace.registered.client import RegistryClient
from headrace.registered.errors import BadRecord

if TYPE_CHECKING:
    from confluent_kafka import Message

    from headrace.registered.serde import RecordReader


def decoded_writer(
    to_bytes: Writer, registry: str | None, *, value_format: ContentFormat, key_format: ContentFormat
) -> Writer:
    """Writes JSON instead of the contents in this format. Without a schema, it is written as it is, with a note."""
    reader = registered_reader(registry)

    def write(message: Message) -> bytes:
        value, key = message.value(), message.key()
        if value_format == "registry" and value is not None:
            value = _decoded(reader, plain_bytes(value), message, "value")
        if key_format == "registry" and key is not None:
            key = _decoded(reader, plain_bytes(key), message, "key")
        return to_bytes(cast("Message", _WithContents(message, key, value)))

    return write


def record_writer_of(registry: str | None, subject: str) -> Callable[[bytes], bytes]:
    """From lines of JSON to records of the latest schema of a subject. ValueError for a line that is not of it."""
    require_schemas()
    from headrace.registered.serde import record_writer

    write = record_writer(RegistryClient(client_settings(None, registry).registry).version(subject))

    def encode(line: bytes) -> bytes:
        try:
            return write(line)
        except BadRecord as error:
            raise ValueError(str(error)) from error

    return encode


class _WithContents:
    """A message with another key and value."""

    def __init__(self, message: Message, key: bytes | str | None, value: bytes | str | None) -> None:
        self._message, self._key, self._value = message, key, value

    def key(self) -> bytes | str | None:
        return self._key

    def value(self) -> bytes | str | None:
        return self._value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._message, name)


def registered_reader(registry: str | None) -> RecordReader:
    """Of the registry at this address, or of the one in the settings."""
    require_schemas()
    from headrace.registered.serde import RecordReader

    return RecordReader(RegistryClient(client_settings(None, registry).registry))


def has_schemas() -> bool:
    """Whether the packages for schemas are installed."""
    import importlib.util

    return importlib.util.find_spec("fastavro") is not None


def require_schemas() -> None:
    if not has_schemas():
        raise HeadraceError(
            "schemas of a registry need more packages", hint="pip install 'headrace[schemas]'"
        )


def _decoded(reader: RecordReader, content: bytes, message: Message, which: str) -> bytes:
    try:
        return reader.to_json(content)
    except BadRecord as error:
        note(f"headrace: {which} of {message.topic()}-{message.partition()}@{message.offset()}: {error}")
        return content
