"""The content types of the registry's API."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.gateway.registry.errors import RegistryError
from headrace.gateway.registry.negotiation import JSON_V1, OFFERED, decoded_body, response_type

PLAIN = "application/vnd.schemaregistry+json"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, JSON_V1),
        ("", JSON_V1),
        ("*", JSON_V1),
        ("*/*", JSON_V1),
        ("application/*", JSON_V1),
        ("application/json", "application/json"),
        ("text/html, image/gif, *; q=.2, */*; q=.2", JSON_V1),
        (f"application/json; q=0.2, {PLAIN}; q=0.9", PLAIN),
        (
            "application/vnd.schemaregistry.v1+json, application/vnd.schemaregistry+json, application/json",
            JSON_V1,
        ),
    ],
)
def test_a_client_gets_the_type_that_it_prefers(accept: str | None, expected: str) -> None:
    assert response_type(accept) == expected


@pytest.mark.parametrize(
    "accept", ["text/*", "text/html", "application/json; q=0", "application/json; q=x", "a," * 5_000 + "*/*"]
)
def test_a_type_that_is_not_offered_is_not_acceptable(accept: str) -> None:
    with pytest.raises(RegistryError) as raised:
        response_type(accept)
    assert raised.value.status == 406


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        *OFFERED,
        "application/octet-stream",
        "Application/JSON; Charset=UTF-8",
        'application/json; charset="utf-8"',
    ],
)
def test_a_body_is_utf_8_by_default(content_type: str | None) -> None:
    assert decoded_body("é".encode(), content_type) == "é"


def test_a_body_may_name_its_charset() -> None:
    assert decoded_body("é".encode("utf-16"), f"{JSON_V1}; charset=utf-16") == "é"


@pytest.mark.parametrize(
    "content_type", ["text/html", "application/json; charset=rot13", "application/json; charset="]
)
def test_other_types_and_charsets_are_unsupported(content_type: str) -> None:
    with pytest.raises(RegistryError) as raised:
        decoded_body(b"x", content_type)
    assert raised.value.status == 415


def test_bytes_that_are_not_of_the_charset_are_rejected() -> None:
    with pytest.raises(RegistryError) as raised:
        decoded_body(b"\xff", None)
    assert raised.value.status == 400


@given(st.text())
def test_any_header_is_answered_or_not_acceptable(accept: str) -> None:
    try:
        found = response_type(accept)
    except RegistryError as error:
        found = str(error.status)
    assert found in (*OFFERED, "406")
