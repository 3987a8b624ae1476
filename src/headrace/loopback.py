"""Addresses that only this machine reaches."""

from __future__ import annotations

import ipaddress
import re
import socket

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address; a name must resolve to loopback addresses only."""
    try:
        found = socket.getaddrinfo(host, None) if host else []
    except OSError:
        return False
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    return bool(addresses) and all(address.is_loopback for address in addresses)


def host_name(header: str) -> str:
    """The name in the header Host of a request, without the port."""
    return re.sub(r":\d*$", "", header)
