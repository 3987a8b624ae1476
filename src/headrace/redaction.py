"""Addresses as they may be shown: without user and password."""

from __future__ import annotations

import re

_HOST = r"(?:\[[0-9a-fA-F:.]*\]|[^@/?#:\[\]]*)(?::\d*)?"
# Only an address that has its special characters where they belong: in another a part of the password may look like a
# host, a port or a path.
_PLAIN = re.compile(
    rf"(?P<scheme>[a-zA-Z][\w+.-]*://)(?P<user>[^@/?#]*@)?(?P<place>{_HOST}(?:,{_HOST})*(?:/[^@?#]*)?)(?P<query>[?#][^@]*)?"
)

ESCAPE_HINT = "write @ : / ? # of a password as %40 %3A %2F %3F %23"


def redacted(address: str) -> str:
    """The address without user, password and query; only its scheme if it can't be told where they end."""
    scheme, separator, _ = address.partition("://")
    if not separator:
        return address
    found = _PLAIN.fullmatch(address)
    return f"{found['scheme']}{found['place']}" if found else f"{scheme}://…"


def scrubbed(text: str, address: str) -> str:
    """What a library says of an address, without the user, password and query that it may quote."""
    if "://" not in address:
        return text
    found = _PLAIN.fullmatch(address)
    if found is None:
        return "…"
    for secret in filter(None, (found["user"], found["query"])):
        text = text.replace(secret, "")
    return text
