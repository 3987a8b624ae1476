"""Every message at every version, every kind of stored record, and values to fill them with.

The values come from a seeded random number generator (quick, the same in every run) or from hypothesis (which
finds the smallest one that fails).
"""

from __future__ import annotations

import importlib
import pkgutil
import uuid
from collections.abc import Iterator
from random import Random
from typing import Any

from hypothesis import strategies as st

import headrace.protocol.messages
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.schema import Encoding, FieldSchema, fields_at
from headrace.protocol.stored import CONSUMER_OFFSETS
from headrace.protocol.stored_format import StoredFormat, StoredTopic
from headrace.protocol.stored_share_state import SHARE_GROUP_STATE
from headrace.protocol.stored_transactions import TRANSACTION_STATE
from headrace.protocol.types import MESSAGE_INFO, Wire

for module in pkgutil.iter_modules(headrace.protocol.messages.__path__):
    importlib.import_module(f"{headrace.protocol.messages.__name__}.{module.name}")

MESSAGES: tuple[type[Any], ...] = tuple(sorted(MESSAGE_INFO, key=lambda cls: cls.__name__))

INTEGER_RANGES = {
    Wire.INT8: (-(2**7), 2**7 - 1),
    Wire.INT16: (-(2**15), 2**15 - 1),
    Wire.UINT16: (0, 2**16 - 1),
    Wire.INT32: (-(2**31), 2**31 - 1),
    Wire.UINT32: (0, 2**32 - 1),
    Wire.INT64: (-(2**63), 2**63 - 1),
}

STORED_TOPICS: tuple[StoredTopic[Any], ...] = (CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE)


def versions_of(cls: type[Any]) -> range:
    first, last = MESSAGE_INFO[cls].versions
    return range(first, last + 1)


def is_flexible(cls: type[Any], version: int) -> bool:
    flexible_since = MESSAGE_INFO[cls].flexible_since
    return flexible_since is not None and version >= flexible_since


def every_message() -> Iterator[tuple[type[Any], int]]:
    for cls in MESSAGES:
        for version in versions_of(cls):
            yield cls, version


def every_stored_format() -> Iterator[tuple[StoredTopic[Any], StoredFormat]]:
    for topic in STORED_TOPICS:
        for stored_format in topic.formats:
            yield topic, stored_format


def stored_versions_of(stored_format: StoredFormat) -> range:
    return range(stored_format.version_newest + 1)


# Random values


def full_sample(cls: type[Any], version: int) -> Any:
    """A value with everything in it: two elements in each array, no nulls, every tagged field."""
    random = Random(f"{cls.__name__} {version}")
    return _struct(cls, version, random, sparse=False)


def random_samples(cls: type[Any], version: int, count: int) -> Iterator[Any]:
    """Values with gaps (nulls, empty arrays, missing tagged fields), the same ones in every run."""
    random = Random(f"{cls.__name__} {version}")
    for _ in range(count):
        yield _struct(cls, version, random, sparse=True)


def _struct(cls: type[Any], version: int, random: Random, *, sparse: bool) -> Any:
    values = {}
    for field in fields_at(cls, version):
        if sparse and field.tag is not None and random.random() < 0.3:
            continue
        limited = _limited_by_others(field, random)
        values[field.name] = (
            limited if limited is not None else _value(field.encoding, version, random, sparse=sparse)
        )
    return cls(**values)


def _limited_by_others(field: FieldSchema, random: Random) -> int | None:
    """Values for the fields that the second implementation reads as something narrower than an integer."""
    if field.name in ("error_code", "partition_error_code", "topic_config_error_code"):
        return int(random.choice(list(ErrorCode)))
    if field.name == "log_append_time_ms":
        return random.choice([-1, 1000 * random.randrange(2**33)])
    if field.name == "transaction_start_time_ms":
        return 1000 * random.randrange(2**33)  # it can't read the -1 of a transaction that has not started
    if field.name == "retention_time_ms":
        return random.randrange(-(2**40), 2**40)
    return None


def _value(encoding: Encoding, version: int, random: Random, *, sparse: bool) -> Any:
    if sparse and encoding.nullable and random.random() < 0.25:
        return None
    if encoding.struct is not None:
        return _struct(encoding.struct, version, random, sparse=sparse)
    if encoding.element is not None:
        count = random.choice([0, 1, 1, 2, 3]) if sparse else 2
        return tuple(_value(encoding.element, version, random, sparse=sparse) for _ in range(count))
    assert encoding.wire is not None
    return _scalar(encoding.wire, random, sparse=sparse)


def _scalar(wire: Wire, random: Random, *, sparse: bool) -> Any:
    # 200 takes two bytes as a varint; the full sample stays short, as tests cut it at every byte.
    size = random.choice([0, 1, 7, 200]) if sparse else random.randrange(1, 4)
    if wire is Wire.STRING:
        return "".join(random.choice("aZ_.-é漢😀") for _ in range(size))
    if wire in (Wire.BYTES, Wire.RECORDS):
        return random.randbytes(size)
    if wire is Wire.UUID:
        return uuid.UUID(bytes=random.randbytes(16))
    if wire is Wire.BOOL:
        return random.random() < 0.5 or not sparse
    if wire is Wire.FLOAT64:
        return random.random()
    low, high = INTEGER_RANGES[wire]
    return random.choice([low, high, random.randint(low, high), 1])


# Values for hypothesis


def messages(cls: type[Any], version: int) -> st.SearchStrategy[Any]:
    """Any value that a message can have in a version."""
    return st.builds(
        cls, **{field.name: _strategy(field.encoding, version) for field in fields_at(cls, version)}
    )


def _strategy(encoding: Encoding, version: int) -> st.SearchStrategy[Any]:
    if encoding.struct is not None:
        values = messages(encoding.struct, version)
    elif encoding.element is not None:
        values = st.lists(_strategy(encoding.element, version), max_size=3).map(tuple)
    else:
        assert encoding.wire is not None
        values = _scalar_strategy(encoding.wire)
    return st.none() | values if encoding.nullable else values


def _scalar_strategy(wire: Wire) -> st.SearchStrategy[Any]:
    if wire in INTEGER_RANGES:
        return st.integers(*INTEGER_RANGES[wire])
    return {
        Wire.BOOL: st.booleans(),
        Wire.FLOAT64: st.floats(allow_nan=False),
        Wire.UUID: st.uuids(),
        Wire.STRING: st.text(max_size=20),
        Wire.BYTES: st.binary(max_size=20),
        Wire.RECORDS: st.binary(max_size=20),
    }[wire]
