"""Our declarations against Kafka's own, field by field and version by version."""

from __future__ import annotations

import typing
from typing import Any

import msgspec
import pytest

from headrace.java import fetch_jars
from headrace.protocol import stored
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.schema import Encoding, fields_at
from headrace.protocol.stored_format import StoredFormat
from headrace.protocol.types import MESSAGE_INFO, Wire, is_struct
from headrace.testing.apache_kafka import KAFKA_4_3
from headrace.testing.requirements import require_java
from tests.protocol.kafka_definitions import DefinedField, Definition, read_definitions
from tests.protocol.samples import MESSAGES, every_stored_format, versions_of

KAFKA_NAMES = {
    Wire.BOOL: "bool",
    Wire.INT8: "int8",
    Wire.INT16: "int16",
    Wire.UINT16: "uint16",
    Wire.INT32: "int32",
    Wire.UINT32: "uint32",
    Wire.INT64: "int64",
    Wire.FLOAT64: "float64",
    Wire.UUID: "uuid",
    Wire.STRING: "string",
    Wire.BYTES: "bytes",
    Wire.RECORDS: "records",
}


@pytest.fixture(scope="module")
def definitions() -> dict[str, Definition]:
    require_java()
    return read_definitions(fetch_jars(KAFKA_4_3))


def declared_fields(cls: type[Any], version: int) -> tuple[DefinedField, ...]:
    return tuple(
        DefinedField(
            name=field.name,
            type=_declared_type(field.encoding, version),
            nullable=field.encoding.nullable,
            tag=field.tag,
        )
        for field in fields_at(cls, version)
    )


def _declared_type(encoding: Encoding, version: int) -> Any:
    if encoding.element is not None:
        return ("array", _declared_type(encoding.element, version))
    if encoding.struct is not None:
        # Where Kafka has two structs of one name, in the request and in the response, ours carry a prefix.
        name = encoding.struct.__name__.removeprefix("Request").removeprefix("Response")
        return (name, declared_fields(encoding.struct, version))
    assert encoding.wire is not None
    return KAFKA_NAMES[encoding.wire]


def structs_within(cls: type[Any]) -> dict[str, type[Any]]:
    """A class and all structs inside it, by name."""
    found = {cls.__name__: cls}
    for hint in typing.get_type_hints(cls, include_extras=True).values():
        for inner in _structs_in(hint):
            found.update(structs_within(inner))
    return found


def _structs_in(hint: Any) -> list[type[Any]]:
    if is_struct(hint):
        return [hint]
    return [inner for argument in typing.get_args(hint) for inner in _structs_in(argument)]


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_message_is_declared_as_kafka_defines_it(cls: type[Any], definitions: dict[str, Definition]) -> None:
    definition, info = definitions[cls.__name__], MESSAGE_INFO[cls]
    assert info.api_key == definition.api_key
    assert info.flexible_since == definition.flexible_since
    for version in versions_of(cls):
        assert declared_fields(cls, version) == definition.fields_at(version), f"version {version}"


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_all_stable_versions_of_kafka_4_3_are_declared(
    cls: type[Any], definitions: dict[str, Definition]
) -> None:
    # Only the definition of the request has whether the last version is still unstable.
    request = cls.__name__.replace("Response", "Request")
    assert MESSAGE_INFO[cls].versions == definitions[request].stable_versions


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_defaults_are_those_that_kafka_names(cls: type[Any], definitions: dict[str, Definition]) -> None:
    structs = structs_within(cls)
    for (struct_name, field_name), expected in definitions[cls.__name__].explicit_defaults().items():
        fields = {field.name: field for field in msgspec.structs.fields(structs.get(struct_name, cls))}
        if struct_name not in structs or field_name not in fields:
            continue  # it belongs only to versions that we do not declare
        ours = fields[field_name].default
        assert getattr(ours, "int", ours) == expected, f"{struct_name}.{field_name}"


def test_every_api_has_a_request_and_a_response() -> None:
    declared = sorted((info.api_key, info.is_request) for info in MESSAGE_INFO.values())
    assert declared == sorted((key, is_request) for key in ApiKey for is_request in (False, True))


STORED_FORMATS = [stored_format for _, stored_format in every_stored_format()]
# The oldest records of offsets, for which Kafka has another name; they look like the newer ones in version 0.
LEGACY_OFFSETS = stored.CONSUMER_OFFSETS.formats[0]


def definition_of(
    cls: type[Any], stored_format: StoredFormat, definitions: dict[str, Definition]
) -> Definition:
    return definitions[f"Legacy{cls.__name__}" if stored_format is LEGACY_OFFSETS else cls.__name__]


def stored_id(stored_format: StoredFormat) -> str:
    return f"{stored_format.key.__name__}-{stored_format.kind}"


@pytest.mark.parametrize("stored_format", STORED_FORMATS, ids=stored_id)
def test_stored_key_is_declared_as_kafka_defines_it(
    stored_format: StoredFormat, definitions: dict[str, Definition]
) -> None:
    definition = definition_of(stored_format.key, stored_format, definitions)
    assert definition.api_key == stored_format.kind
    assert definition.flexible_since is None
    assert declared_fields(stored_format.key, 0) == definition.fields_at(0)


@pytest.mark.parametrize("stored_format", STORED_FORMATS, ids=stored_id)
def test_stored_value_is_declared_as_kafka_defines_it(
    stored_format: StoredFormat, definitions: dict[str, Definition]
) -> None:
    definition = definition_of(stored_format.value, stored_format, definitions)
    first, last = definition.stable_versions
    assert definition.api_key == stored_format.kind
    for version in range(first, last + 1):
        declared = declared_fields(stored_format.value, version)
        assert declared == definition.fields_at(version), f"version {version}"


@pytest.mark.parametrize(
    "stored_format", [one for one in STORED_FORMATS if one is not LEGACY_OFFSETS], ids=stored_id
)
def test_stored_versions_and_defaults_are_those_of_kafka_4_3(
    stored_format: StoredFormat, definitions: dict[str, Definition]
) -> None:
    definition = definitions[stored_format.value.__name__]
    assert definition.stable_versions == (0, stored_format.version_newest)
    assert definition.flexible_since == stored_format.flexible_since
    structs = structs_within(stored_format.value)
    for (struct_name, field_name), expected in definition.explicit_defaults().items():
        fields = {field.name: field for field in msgspec.structs.fields(structs[struct_name])}
        ours = fields[field_name].default
        assert getattr(ours, "int", ours) == expected, f"{struct_name}.{field_name}"


def test_all_stored_records_of_kafka_4_3_are_declared_but_those_of_kafka_streams(
    definitions: dict[str, Definition],
) -> None:
    defined = {
        name
        for name, definition in definitions.items()
        if definition.is_stored and not name.startswith("Streams")
    }
    declared = {
        definition_of(cls, one, definitions).name for one in STORED_FORMATS for cls in (one.key, one.value)
    }
    assert declared == defined
