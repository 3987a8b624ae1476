"""Addresses without user and password, for messages and logs."""

from __future__ import annotations

import re

_HOST = r"(?:\[[0-9a-fA-F:.]*\]|[^@/?#:\[\]]*)(?::\d*)?"
# Matches only an address without misplaced special characters. In any other address a part of the password may look
# like a host, a port or a path.
_PLAIN = re.compile(
    rf"(?P<scheme>[a-zA-Z][\w+.-]*://)(?P<user>[^@/?#]*@)?(?P<place>{_HOST}(?:,{_HOST})*(?:/[^@?#]*)?)(?P<query>[?#][^@]*)?"
)

ESCAPE_HINT = "write @ : / ? # of a password as %40 %3A %2F %3F %23"


def redacted(address: str) -> str:
    """The address without user, password and query; only its scheme if their ends are ambiguous."""
    scheme, separator, _ = address.partition("://")
    if not separator:
        return address
    found = _PLAIN.fullmatch(address)
    return f"{found['scheme']}{found['place']}" if found else f"{scheme}://…"


def scrubbed(text: str, address: str) -> str:
    """The message of a library about an address, without user, password and query."""
    if "://" not in address:
        return text
    found = _PLAIN.fullmatch(address)
    if found is None:
        return "…"
    for secret in filter(None, (found["user"], found["query"])):
        text = text.replace(secret, "")
    return text
