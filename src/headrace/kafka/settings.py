"""How a client reaches its broker: the `[client]` settings, addresses, and the configuration of every client.

Commands, queues and jobs share it. It imports no client library, so that `headrace broker` need not load one.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.errors import HeadraceError
from headrace.kafka.errors import no_broker
from headrace.settings import load, setting

DEFAULT_REGISTRY = "http://127.0.0.1:8082"
"""Where `headrace gateway` listens."""

CONNECT_TIMEOUT_S = 5.0
"""For one address. A closed port rejects immediately; this is for a host that drops packets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The `[client]` table of headrace.toml."""

    bootstrap: str = setting(
        "127.0.0.1:9092",
        doc="HOST:PORT of the broker (or several, with commas): Headrace's or Apache Kafka's.",
    )
    registry: str = setting(
        DEFAULT_REGISTRY,
        doc="Address of the schema registry (or several, with commas): that of `headrace gateway`, or another one with "
        "the API of Confluent's.",
    )
    timeout_s: int = setting(
        15,
        minimum=1,
        doc="How long a command waits for a response; longer than the start of a broker.",
    )


def client_settings(bootstrap: str | None, registry: str | None = None) -> ClientSettings:
    """The settings of a client whose `--bootstrap` or `bootstrap=` is this, and `--registry` (None: not given)."""
    # The short variable is the one that people and other tools set; HEADRACE_CLIENT_BOOTSTRAP works as well.
    given = bootstrap or os.environ.get("HEADRACE_BOOTSTRAP")
    flags = {"bootstrap": given, "registry": registry or os.environ.get("HEADRACE_REGISTRY")}
    return load(ClientSettings, section="client", flags=flags)


def client_config(
    bootstrap: str | None, config: Mapping[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    """The configuration of a producer, a consumer or an admin client.

    Errors are returned from calls: the client's own log lines are off, unless `config` turns them on. Options win over
    `config`; `session_timeout_ms=1` becomes `session.timeout.ms`.
    """
    # A program that names its broker depends on no file and no variable.
    address = bootstrap or (config or {}).get("bootstrap.servers") or client_settings(None).bootstrap
    named = {name.replace("_", "."): value for name, value in options.items()}
    return {"log_level": 0, **(config or {}), "bootstrap.servers": address, **named}


def parse_address(address: str) -> tuple[str, int]:
    """HOST:PORT, with brackets around an IPv6 host."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (host and port.isdecimal() and int(port) < 65536):
        raise HeadraceError(f"{address!r} is not an address", hint="write HOST:PORT, such as 127.0.0.1:9092")
    return host, int(port)


def require_broker(bootstrap: str, timeout_s: float = CONNECT_TIMEOUT_S) -> None:
    """An error if none of the addresses accepts a connection.

    A client library does not fail: it retries in the background until its own timeout.
    """
    reasons = []
    for address in bootstrap.split(","):
        host, port = parse_address(address.strip())
        try:
            socket.create_connection((host, port), timeout=min(CONNECT_TIMEOUT_S, timeout_s)).close()
        except OSError as error:
            reasons.append(f"{address.strip()}: {error.strerror or error}")
        else:
            return
    raise no_broker(bootstrap, f" ({'; '.join(reasons)})")
