"""Every message at every version, byte for byte against a second implementation of the protocol, kio."""

from __future__ import annotations

import dataclasses
import datetime
import io
import typing
from pathlib import Path
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer

from headrace.protocol import messages
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.codec import codec
from headrace.protocol.types import MESSAGE_INFO, ZERO_UUID
from tests.protocol.samples import MESSAGES, every_message, full_sample, random_samples, versions_of

SAMPLES = 12
FOLDER = Path(messages.__path__[0])


def kio_class(cls: type[Any], version: int) -> type[Any]:
    info = MESSAGE_INFO[cls]
    load = load_request_schema if info.is_request else load_response_schema
    found: type[Any] = load(info.api_key, version)
    return found


def to_kio(value: Any, cls: type[Any]) -> Any:
    return cls(**{field.name: _convert(value, field) for field in dataclasses.fields(cls)})


def _convert(value: Any, field: dataclasses.Field[Any]) -> Any:
    # kio drops the unit from the names of the fields that it turns into durations and times.
    ours = getattr(value, field.name if hasattr(value, field.name) else f"{field.name}_ms")
    struct = _struct_in(field.type)
    if struct is not None and ours is not None:
        return (
            tuple(to_kio(item, struct) for item in ours) if isinstance(ours, tuple) else to_kio(ours, struct)
        )
    kind = field.metadata.get("kafka_type")
    if kind == "error_code":
        return KioErrorCode(ours)
    if kind in ("timedelta_i32", "timedelta_i64"):
        return datetime.timedelta(milliseconds=ours)
    if kind == "uuid":
        return None if ours == ZERO_UUID else ours
    if kind == "datetime_i64":
        return None if ours == -1 else datetime.datetime.fromtimestamp(ours / 1000, datetime.UTC)
    return ours


def _struct_in(hint: Any) -> type[Any] | None:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return hint
    inner = (_struct_in(argument) for argument in typing.get_args(hint))
    return next((struct for struct in inner if struct is not None), None)


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_bytes_equal_those_of_a_second_implementation(cls: type[Any]) -> None:
    for version in versions_of(cls):
        theirs = kio_class(cls, version)
        for value in (full_sample(cls, version), *random_samples(cls, version, SAMPLES)):
            written = io.BytesIO()
            entity_writer(theirs)(written, to_kio(value, theirs))
            assert codec(cls, version).encode(value) == written.getvalue(), f"version {version}"


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_second_implementation_reads_our_bytes_as_the_same_values(cls: type[Any]) -> None:
    for version in versions_of(cls):
        theirs = kio_class(cls, version)
        for value in (full_sample(cls, version), *random_samples(cls, version, SAMPLES)):
            data = codec(cls, version).encode(value)
            read, size = entity_reader(theirs)(data, 0)
            assert size == len(data)
            assert read == to_kio(value, theirs), f"version {version}"


def test_the_comparison_covers_every_message_at_every_version() -> None:
    compared = {kio_class(cls, version) for cls, version in every_message()}
    assert len(compared) == len(list(every_message()))


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("[!_]*.py")))
def test_module_declares_the_request_and_the_response_of_its_name(name: str) -> None:
    """So that the comparisons above include every module of the folder."""
    module = f"{messages.__name__}.{name}"
    declared = {cls.__name__ for cls in MESSAGES if cls.__module__ == module}
    api = "".join(word.capitalize() for word in name.split("_"))
    assert declared == {f"{api}Request", f"{api}Response"}
    assert ApiKey[name.upper()] in {MESSAGE_INFO[cls].api_key for cls in MESSAGES if cls.__module__ == module}
