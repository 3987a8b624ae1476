"""Headers of a request: exactly one, in any case, or an error."""

from __future__ import annotations

import pytest

from headrace.webhooks.incoming.request import AmbiguousHeader, WebhookRequest, header_text


def test_header_is_found_in_any_case() -> None:
    request = WebhookRequest(headers=[(b"x-id", b"1")], body=b"")
    assert request.header("X-Id") == b"1"
    assert request.header("x-other") is None


def test_header_that_is_there_twice_is_ambiguous_even_with_equal_values() -> None:
    request = WebhookRequest(headers=[(b"x-id", b"1"), (b"x-id", b"1")], body=b"")
    with pytest.raises(AmbiguousHeader):
        request.header("x-id")


@pytest.mark.parametrize("value", ["é".encode(), b"\xff", b"a\tb", b"a\x00", b"\x7f"])
def test_value_that_is_not_printable_ascii_is_no_text(value: bytes) -> None:
    assert header_text(value) is None


def test_value_that_is_printable_ascii_is_text() -> None:
    assert header_text(b"a b~") == "a b~"
