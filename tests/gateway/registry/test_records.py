"""The records of the topic, in the format of other registries."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.gateway.registry.records import (
    ConfigKey,
    DeletedSubject,
    DeleteSubjectKey,
    GreatestId,
    Key,
    Mode,
    ModeKey,
    NoopKey,
    SchemaKey,
    UnreadableRecord,
    Value,
    Version,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from headrace.schemas.definition import Definition, Reference, SchemaType
from headrace.schemas.levels import Compatibility

# Bytes as Confluent's registry writes them.
KEYS: list[tuple[bytes, Key]] = [
    (b'{"keytype":"SCHEMA","subject":"orders","version":3,"magic":1}', SchemaKey("orders", 3)),
    (b'{"keytype":"CONFIG","subject":null,"magic":0}', ConfigKey(None)),
    (b'{"keytype":"CONFIG","subject":"orders","magic":0}', ConfigKey("orders")),
    (b'{"keytype":"MODE","subject":"orders","magic":0}', ModeKey("orders")),
    (b'{"keytype":"DELETE_SUBJECT","subject":"orders","magic":0}', DeleteSubjectKey("orders")),
    (b'{"keytype":"NOOP","magic":0}', NoopKey()),
]

VERSION = Version(
    subject="orders",
    version=3,
    id=7,
    definition=Definition(
        text='{"type":"object"}', type=SchemaType.JSON, references=(Reference("a.json", "a", 1),)
    ),
    extra={"metadata": {"owner": "me"}},
)

VALUES: list[tuple[Key, dict[str, Any], Value]] = [
    (
        SchemaKey("orders", 3),
        {
            "subject": "orders", "version": 3, "id": 7, "schemaType": "JSON",
            "references": [{"name": "a.json", "subject": "a", "version": 1}],
            "metadata": {"owner": "me"}, "schema": '{"type":"object"}', "deleted": False,
        },
        VERSION,
    ),
    (ConfigKey(None), {"compatibilityLevel": "FULL"}, Compatibility.FULL),
    (ModeKey(None), {"mode": "IMPORT"}, Mode.IMPORT),
    (DeleteSubjectKey("orders"), {"subject": "orders", "version": 3}, DeletedSubject(3)),
    (NoopKey(), {"greatestId": 7}, GreatestId(7)),
]  # fmt: skip


@pytest.mark.parametrize(("data", "key"), KEYS)
def test_a_key_has_the_bytes_of_other_registries(data: bytes, key: Key) -> None:
    assert encode_key(key) == data
    assert decode_key(data) == key


def test_a_key_in_another_form_is_read() -> None:
    assert decode_key(b'{"magic": 1, "subject": "s", "version": 1, "keytype": "SCHEMA"}') == SchemaKey("s", 1)


@pytest.mark.parametrize(("key", "fields", "value"), VALUES)
def test_a_value_has_the_fields_of_other_registries(key: Key, fields: dict[str, Any], value: Value) -> None:
    assert json.loads(encode_value(value, "orders")) == fields
    assert decode_value(key, json.dumps(fields).encode()) == value


def test_an_avro_schema_has_no_type_and_further_fields_are_ignored() -> None:
    value = {"subject": "s", "version": 1, "id": 1, "schema": '"int"', "deleted": True, "md5Bytes": "x"}
    version = decode_value(SchemaKey("s", 1), json.dumps(value).encode())
    assert isinstance(version, Version)
    assert (version.definition, version.is_deleted) == (Definition(text='"int"'), True)
    assert "schemaType" not in json.loads(encode_value(version))


@pytest.mark.parametrize(
    "data", [None, b"", b"{", b"[]", b'{"keytype":"SCHEMA"}', b'{"keytype":"OTHER"}', b"\xff"]
)
def test_a_key_of_another_program_is_unreadable(data: bytes | None) -> None:
    with pytest.raises(UnreadableRecord):
        decode_key(data)


@pytest.mark.parametrize(
    "key", [each[0] for each in VALUES if each[0] != NoopKey() and each[0] != ConfigKey(None)]
)
@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"subject":1}', b"[" * 100_000])
def test_a_value_of_another_program_is_unreadable(key: Key, data: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        decode_value(key, data)


@given(st.text(), st.integers(1, 2**31 - 1))
def test_any_subject_is_read_back(subject: str, version: int) -> None:
    assert decode_key(encode_key(SchemaKey(subject, version))) == SchemaKey(subject, version)


@pytest.mark.parametrize("extra", [{}, {"metadata": None}, {"metadata": []}, {"metadata": {"properties": 7}}])
def test_version_without_properties_has_none(extra: dict[str, Any]) -> None:
    assert replace(VERSION, extra=extra).properties == {}
