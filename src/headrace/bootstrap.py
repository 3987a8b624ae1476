"""Where a client finds its broker: the `[client]` settings, addresses, and whether anything listens there.

Commands and queues share it. It imports no client library, so that `headrace broker` pays for none.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from headrace.errors import HeadraceError
from headrace.settings import load, setting

CONNECT_TIMEOUT_S = 5.0
"""For one address. A closed port refuses at once; this is for a host that drops packets."""


class BadAddress(HeadraceError):
    """An address that is not HOST:PORT."""


class NoBroker(HeadraceError):
    """Nothing listens at the address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The `[client]` table of headrace.toml."""

    bootstrap: str = setting(
        "127.0.0.1:9092",
        doc="HOST:PORT of the broker (or several, with commas): Headrace's or Apache Kafka's.",
    )
    timeout_s: int = setting(
        15,
        minimum=1,
        doc="How long a command waits for an answer: longer than a broker's start, shorter than patience.",
    )


def client_settings(bootstrap: str | None) -> ClientSettings:
    """The settings of a client whose `--bootstrap` or `bootstrap=` is this (None: not given)."""
    # The short variable is the one that people and other tools set; HEADRACE_CLIENT_BOOTSTRAP works as well.
    given = bootstrap or os.environ.get("HEADRACE_BOOTSTRAP")
    return load(ClientSettings, section="client", flags={"bootstrap": given})


def parse_address(address: str) -> tuple[str, int]:
    """HOST:PORT, where an IPv6 host stands in brackets."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (host and port.isdecimal() and int(port) < 65536):
        raise BadAddress(f"{address!r} is not an address", hint="write HOST:PORT, such as 127.0.0.1:9092")
    return host, int(port)


def require_broker(bootstrap: str, timeout_s: float = CONNECT_TIMEOUT_S) -> None:
    """Raise NoBroker if none of the addresses accepts a connection.

    A client library does not fail: it tries again in the background until its own time is over.
    """
    reasons = []
    for address in bootstrap.split(","):
        host, port = parse_address(address.strip())
        try:
            socket.create_connection((host, port), timeout=timeout_s).close()
        except OSError as error:
            reasons.append(f"{address.strip()}: {error.strerror or error}")
        else:
            return
    raise NoBroker(
        f"no broker answers at {bootstrap} ({'; '.join(reasons)})",
        hint=f"`headrace broker --listen {bootstrap.split(',')[0]}` starts one; "
        "--bootstrap (in Python bootstrap=) names another",
    )
