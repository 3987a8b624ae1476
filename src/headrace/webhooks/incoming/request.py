"""A request as its bytes arrived. Nothing is decoded before its signature is verified."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

_TEXT = re.compile(rb"[\x20-\x7e]*")


class AmbiguousHeader(Exception):
    """A header that must be there once is there several times. `args[0]` is its name."""


class WebhookRequest(Struct, frozen=True, kw_only=True):
    headers: Sequence[tuple[bytes, bytes]]
    """The names in lower case."""
    body: bytes

    def header(self, name: str) -> bytes | None:
        """The only value of a header; AmbiguousHeader if there are several."""
        wanted = name.lower().encode()
        found = [value for key, value in self.headers if key == wanted]
        if len(found) > 1:
            raise AmbiguousHeader(name)
        return found[0] if found else None


def header_text(value: bytes) -> str | None:
    """The value of a header as text; None if it is not printable ASCII."""
    return value.decode("ascii") if _TEXT.fullmatch(value) else None
