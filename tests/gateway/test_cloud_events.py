"""CloudEvents as records of their Kafka binding."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import HeadraceError
from headrace.gateway import cloud_events
from headrace.gateway.cloud_events import BATCHED, STRUCTURED, is_cloud_event
from headrace.gateway.errors import BadBody
from headrace.gateway.records import NewRecord

EVENT = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "sold"}


def records_of(
    content_type: str, headers: dict[str, str], body: bytes, *, records_max: int = 100
) -> list[NewRecord]:
    return cloud_events.records_of(content_type, headers, body, records_max=records_max)


def structured(**event: Any) -> Any:
    (found,) = records_of(STRUCTURED, {}, json.dumps({**EVENT, **event}).encode())
    return found


def test_attributes_become_headers_and_data_the_value() -> None:
    found = structured(data={"a": 1}, subject="é", count=3, flag=True, nothing=None)
    assert json.loads(found.value) == {"a": 1}
    assert dict(found.headers) == {
        "content-type": b"application/json",
        "ce_specversion": b"1.0",
        "ce_id": b"1",
        "ce_source": b"/shop",
        "ce_type": b"sold",
        "ce_subject": "é".encode(),
        "ce_count": b"3",
        "ce_flag": b"true",
    }


def test_partition_key_becomes_the_key() -> None:
    assert structured(partitionkey="ann").key == b"ann"
    assert structured().key is None


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ({}, None),
        ({"data": "text", "datacontenttype": "text/plain"}, b"text"),
        ({"data": "text"}, b'"text"'),
        ({"data": "text", "datacontenttype": "application/vnd.x+json"}, b'"text"'),
        ({"data_base64": "/w==", "datacontenttype": "image/png"}, b"\xff"),
    ],
)
def test_data_is_decoded_by_its_type(fields: dict[str, Any], value: bytes | None) -> None:
    assert structured(**fields).value == value


def test_batch_is_several_records() -> None:
    found = records_of(BATCHED, {}, json.dumps([EVENT, {**EVENT, "id": "2"}]).encode())
    assert [dict(each.headers)["ce_id"] for each in found] == [b"1", b"2"]


def test_batch_of_more_events_than_allowed_is_rejected_before_any_is_looked_at() -> None:
    with pytest.raises(BadBody, match="more than 2 records"):
        records_of(BATCHED, {}, json.dumps([EVENT, EVENT, {}]).encode(), records_max=2)


def test_attributes_in_the_headers_of_the_request_are_percent_decoded() -> None:
    headers = {
        "ce-specversion": "1.0",
        "ce-id": "1",
        "ce-source": "/caf%C3%A9",
        "ce-type": "sold",
        "content-type": "image/png",
    }
    assert is_cloud_event("image/png", headers)
    (found,) = records_of("image/png", headers, b"\x89")
    assert found.value == b"\x89"
    assert dict(found.headers)["ce_source"] == "/café".encode()
    assert dict(found.headers)["content-type"] == b"image/png"


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        ({**EVENT, "specversion": "0.3"}, "specversion is '0.3'"),
        ({"id": "1"}, "specversion is 'None'"),
        ({**EVENT, "source": ""}, "has no source"),
        ({**EVENT, "type": False}, "the type of the event is not text"),
        ({**EVENT, "Upper": "x"}, "can't be the name of an attribute"),
        ({**EVENT, "nested": {}}, "the attribute nested"),
        ({**EVENT, "data": 1, "data_base64": "AA=="}, "data and data_base64"),
        ({**EVENT, "data_base64": "!"}, "is not base64"),
        ({**EVENT, **{f"x{each}": "" for each in range(61)}}, "has 65 attributes"),
        ([], "is not as expected"),
    ],
)
def test_wrong_event_is_rejected(event: Any, problem: str) -> None:
    with pytest.raises(BadBody, match=problem):
        records_of(STRUCTURED, {}, json.dumps(event).encode())


@given(body=st.binary(max_size=60), content_type=st.sampled_from([STRUCTURED, BATCHED, "x/y"]))
def test_garbage_is_an_error_for_users(body: bytes, content_type: str) -> None:
    with contextlib.suppress(HeadraceError):
        records_of(content_type, {"ce-specversion": "1.0"}, body)
