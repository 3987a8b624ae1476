"""The secrets of a webhook. One is new, and after a rotation older ones stay valid for a time.

A secret appears in no message, no table and no log: `str` and `repr` hide it.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from headrace.webhooks.errors import BadWebhook

STANDARD_PREFIX = "whsec_"
STANDARD_BYTES = 32
"""Of a generated secret; Standard Webhooks asks for 24 to 64."""

SECRET_CHARACTERS_MAX = 4_096
SECRETS_MAX = 5
"""Of one webhook: each signature is compared with each secret."""

HIDDEN = "•••"


class Secret(Struct, frozen=True, kw_only=True):
    text: str
    valid_until_ms: int | None = None
    """None: until it is rotated"""

    def is_valid(self, now_ms: int) -> bool:
        return self.valid_until_ms is None or now_ms < self.valid_until_ms

    def __repr__(self) -> str:
        return f"Secret(text={HIDDEN!r}, valid_until_ms={self.valid_until_ms})"

    __str__ = __repr__


def generate_secret() -> str:
    """A random secret in the form of Standard Webhooks."""
    return STANDARD_PREFIX + base64.b64encode(secrets.token_bytes(STANDARD_BYTES)).decode()


def standard_key(text: str) -> bytes:
    """The key of a secret of Standard Webhooks, which is base64 with or without `whsec_`."""
    encoded = text.removeprefix(STANDARD_PREFIX)
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise BadWebhook(
            "the secret is not one of Standard Webhooks",
            hint=f"it is base64, usually after {STANDARD_PREFIX}; copy it as the sender shows it",
        )
    return key


def check_secret(text: str) -> None:
    """Raise BadWebhook if this is no secret at all."""
    problem = ""
    if not text:
        problem = "is empty"
    elif len(text) > SECRET_CHARACTERS_MAX:
        problem = f"has more than {SECRET_CHARACTERS_MAX:,} characters"
    elif not text.isprintable() or text != text.strip():
        problem = "has spaces at an end, or unprintable characters"
    if problem:
        raise BadWebhook(f"the secret {problem}", hint="pass exactly one line")


def rotated(held: Sequence[Secret], new: str, *, now_ms: int, overlap_ms: int) -> tuple[Secret, ...]:
    """The new secret first; those that are valid now stay so for the overlap at most."""
    check_secret(new)
    if any(each.text == new for each in held if each.valid_until_ms is None):
        raise BadWebhook("the new secret is the one in use", hint="pass another one")
    end_ms = now_ms + overlap_ms
    older = [
        replace(each, valid_until_ms=min(each.valid_until_ms or end_ms, end_ms))
        for each in held
        if each.is_valid(now_ms) and each.text != new
    ]
    kept = [each for each in older if each.is_valid(now_ms)]
    return (Secret(text=new), *kept[: SECRETS_MAX - 1])
