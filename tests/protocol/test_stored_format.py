"""Every record of every internal topic: written, read back, cut, and of unknown kinds and versions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.protocol.primitives import MalformedMessage
from headrace.protocol.stored_format import StoredFormat, StoredTopic
from tests.protocol.samples import (
    STORED_TOPICS,
    every_stored_format,
    full_sample,
    messages,
    random_samples,
    stored_versions_of,
)

every_format = pytest.mark.parametrize(
    ("topic", "stored_format"),
    list(every_stored_format()),
    ids=lambda one: f"{one.key.__name__}-{one.kind}" if isinstance(one, StoredFormat) else "",
)


def number(value: int) -> bytes:
    return value.to_bytes(2, "big", signed=True)


SAMPLES = 12


@given(st.data(), st.sampled_from(list(every_stored_format())))
def test_keys_are_read_as_they_were_written(
    data: st.DataObject, chosen: tuple[StoredTopic[Any], StoredFormat]
) -> None:
    topic, stored_format = chosen
    key = data.draw(messages(stored_format.key, 0))
    assert topic.decode_key(topic.encode_key(key)) == key


@given(st.data(), st.sampled_from(list(every_stored_format())))
def test_values_are_read_as_they_were_written(
    data: st.DataObject, chosen: tuple[StoredTopic[Any], StoredFormat]
) -> None:
    topic, stored_format = chosen
    version = data.draw(st.sampled_from(stored_versions_of(stored_format)))
    value = data.draw(messages(stored_format.value, version))
    assert topic.decode_value(stored_format.value, topic.encode_value(value, version)) == value


@every_format
def test_values_are_written_in_the_newest_version_unless_another_is_requested(
    topic: StoredTopic[Any], stored_format: StoredFormat
) -> None:
    newest = stored_format.version_newest
    for value in random_samples(stored_format.value, newest, SAMPLES):
        assert topic.encode_value(value) == topic.encode_value(value, newest)
        assert topic.encode_value(value)[:2] == number(newest)


@pytest.mark.parametrize("topic", STORED_TOPICS)
def test_a_key_of_another_kind_is_none(topic: StoredTopic[Any]) -> None:
    kinds = {stored_format.kind for stored_format in topic.formats}
    for kind in {-1, *range(20), 32767} - kinds:
        assert topic.decode_key(number(kind) + b"anything") is None


@every_format
def test_a_value_of_an_unknown_version_is_rejected_with_a_hint(
    topic: StoredTopic[Any], stored_format: StoredFormat
) -> None:
    for version in (-1, stored_format.version_newest + 1, 32767):
        with pytest.raises(MalformedMessage, match=f"version {version}.*newer headrace"):
            topic.decode_value(stored_format.value, number(version) + b"\0" * 40)


@every_format
def test_keys_and_values_cut_at_any_byte_are_malformed(
    topic: StoredTopic[Any], stored_format: StoredFormat
) -> None:
    key = topic.encode_key(full_sample(stored_format.key, 0))
    for size in range(len(key)):
        with pytest.raises(MalformedMessage):
            topic.decode_key(key[:size])
    for version in stored_versions_of(stored_format):
        value = topic.encode_value(full_sample(stored_format.value, version), version)
        for size in range(len(value)):
            with pytest.raises(MalformedMessage):
                topic.decode_value(stored_format.value, value[:size])
