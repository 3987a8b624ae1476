"""Secrets: valid for a time after a rotation, and hidden everywhere."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from headrace.webhooks.errors import BadWebhook
from headrace.webhooks.secrets import (
    SECRETS_MAX,
    Secret,
    check_secret,
    generate_secret,
    rotated,
    standard_key,
)

HOUR_MS = 3_600_000


def test_generated_secret_is_taken_by_the_library_of_standard_webhooks() -> None:
    secret = generate_secret()
    assert secret != generate_secret()
    assert Webhook(secret)._whsecret == standard_key(secret)
    assert len(standard_key(secret)) == 32


def test_secret_is_hidden_in_every_text() -> None:
    secret = Secret(text="hunter2", valid_until_ms=5)
    assert "hunter2" not in f"{secret} {secret!r} {[secret]}"


def test_secret_is_written_to_files_as_it_is() -> None:
    secret = Secret(text="hunter2")
    assert msgspec.json.decode(msgspec.json.encode(secret), type=Secret).text == "hunter2"


@pytest.mark.parametrize("text", ["", " a", "a ", "a\nb", "a\x00b", "x" * 5_000])
def test_text_that_is_no_secret_is_rejected(text: str) -> None:
    with pytest.raises(BadWebhook, match="the secret"):
        check_secret(text)


@pytest.mark.parametrize("text", ["whsec_", "whsec_%%%", "plain words", "ä"])
def test_secret_that_is_not_base64_is_not_one_of_standard_webhooks(text: str) -> None:
    with pytest.raises(BadWebhook, match="not one of Standard Webhooks"):
        standard_key(text)


def test_old_secret_is_valid_until_the_overlap_ends() -> None:
    new, old = rotated([Secret(text="old")], "new", now_ms=1_000, overlap_ms=HOUR_MS)
    assert new.is_valid(10**15)
    assert old.is_valid(1_000 + HOUR_MS - 1)
    assert not old.is_valid(1_000 + HOUR_MS)


def test_rotation_never_makes_an_older_secret_valid_for_longer() -> None:
    first = rotated([Secret(text="a")], "b", now_ms=0, overlap_ms=10)
    second = rotated(first, "c", now_ms=5, overlap_ms=HOUR_MS)
    assert [(each.text, each.valid_until_ms) for each in second] == [
        ("c", None),
        ("b", 5 + HOUR_MS),
        ("a", 10),
    ]


def test_rotation_forgets_secrets_that_are_not_valid_any_more() -> None:
    first = rotated([Secret(text="a")], "b", now_ms=0, overlap_ms=10)
    assert [each.text for each in rotated(first, "c", now_ms=10, overlap_ms=0)] == ["c"]


def test_rotation_to_the_secret_in_use_is_rejected() -> None:
    with pytest.raises(BadWebhook, match="the one in use"):
        rotated([Secret(text="a")], "a", now_ms=0, overlap_ms=10)


def test_rotation_back_to_an_older_secret_holds_it_once() -> None:
    first = rotated([Secret(text="a")], "b", now_ms=0, overlap_ms=HOUR_MS)
    assert [each.text for each in rotated(first, "a", now_ms=1, overlap_ms=HOUR_MS)] == ["a", "b"]


def test_number_of_secrets_is_bounded() -> None:
    held: tuple[Secret, ...] = (Secret(text="0"),)
    for number in range(1, 20):
        held = rotated(held, str(number), now_ms=0, overlap_ms=HOUR_MS)
    assert len(held) == SECRETS_MAX
    assert held[0].text == "19"


@given(st.one_of(st.text(), st.builds(str.__add__, st.just("whsec_"), st.text())))
def test_any_text_is_a_secret_or_an_error(text: str) -> None:
    with contextlib.suppress(BadWebhook):
        assert standard_key(text)
