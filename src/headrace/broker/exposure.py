"""Who can reach the broker. It knows no authentication yet, so an address that other machines reach is open to all."""

from __future__ import annotations

import ipaddress
import logging
import socket

from headrace.broker.settings import BrokerSettings
from headrace.errors import HeadraceError

logger = logging.getLogger(__name__)


class AddressExposed(HeadraceError):
    """The address can be reached from other machines, and the settings do not allow that."""


def check_exposure(settings: BrokerSettings) -> None:
    """Refuse an address that is not loopback, unless `insecure` is set; then warn, at every start."""
    if is_loopback(settings.host):
        return
    ports = "port" if settings.metrics_port is None else "ports of the broker and of its metrics"
    if not settings.insecure:
        raise AddressExposed(
            f"{settings.host or 'an empty host'} is not a loopback address: the {ports} would be open to every machine "
            "that reaches it, without authentication",
            hint="listen on 127.0.0.1, or give --insecure (insecure = true) if you trust that network",
        )
    # Above every level that the log can be set to.
    logger.critical(
        "INSECURE: the %s can be used by every machine that reaches the address, without authentication or encryption",
        ports,
        extra={"host": settings.host, "port": settings.port, "metrics_port": settings.metrics_port},
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address; a name must stand for loopback addresses alone."""
    try:
        found = socket.getaddrinfo(host, None) if host else []
    except OSError:
        return False
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    return bool(addresses) and all(address.is_loopback for address in addresses)
