"""Addresses in messages: never a part of a password, however it was written."""

from __future__ import annotations

import pytest

from headrace.redaction import redacted, scrubbed


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("/var/archive", "/var/archive"),
        ("s3://bucket/path", "s3://bucket/path"),
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
        ("redis://:secret@cache:6379/0", "redis://cache:6379/0"),
        ("redis://u:secret@[::1]:6379/0?password=secret", "redis://[::1]:6379/0"),
        ("postgresql://u:s%40cret@a:1,b:2/db", "postgresql://a:1,b:2/db"),
        ("db://user:secret", "db://…"),
        ("unix:///run/redis.sock?password=secret", "unix:///run/redis.sock"),
    ],
)
def test_user_password_and_query_are_redacted(address: str, shown: str) -> None:
    assert redacted(address) == shown


@pytest.mark.parametrize(
    "password", ["se@cret", "se/cret", "se#cret", "se?cret", "12/secret", "se:cret", "@secret", "a=b?c=@cret"]
)
@pytest.mark.parametrize("form", ["db://user:{}@host:1/path", "db://:{}@host", "db://user:{}@host/?x=y"])
def test_no_part_of_an_unescaped_password_is_shown(form: str, password: str) -> None:
    shown = redacted(form.format(password))
    assert "cret" not in shown
    assert "12" not in shown


def test_address_in_the_error_of_a_library_is_redacted() -> None:
    address = "ftp://user:secret@host/path?token=abc"
    assert (
        scrubbed(f"no {address} there, nor user:secret@host", address) == "no ftp://host/path there, nor host"
    )
    assert scrubbed("bad port 'se'", "ftp://user:se/cret@host") == "…"
    assert scrubbed("no such folder", "/var/archive") == "no such folder"
