"""Which IP addresses a webhook may be sent to. An address that is not public is inside.

Inside are this machine, private networks, and what routers and clouds keep for themselves. A target of its own network
may have the first two; metadata services of clouds, multicast and tunnels are for no target.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

from msgspec import Struct

from headrace.webhooks.errors import BadWebhook

Network = IPv4Network | IPv6Network


class Kind(StrEnum):
    """Of an address that is not public."""

    LOOPBACK = "loopback"
    PRIVATE = "private"
    SHARED = "shared by a provider's customers"
    METADATA = "a metadata service"
    LINK_LOCAL = "link-local"
    MULTICAST = "multicast"
    UNSPECIFIED = "unspecified"
    TUNNEL = "a tunnel"
    RESERVED = "reserved"


OWN_NETWORK = frozenset({Kind.LOOPBACK, Kind.PRIVATE, Kind.SHARED})
"""What a target with `--allow-inside` may have."""

# The first network that has the address counts, so that a single address comes before its network.
_V4 = tuple(
    (IPv4Network(text), kind)
    for text, kind in (
        ("169.254.169.254/32", Kind.METADATA),
        ("169.254.170.2/32", Kind.METADATA),
        ("100.100.100.200/32", Kind.METADATA),
        ("168.63.129.16/32", Kind.METADATA),
        ("192.0.0.192/32", Kind.METADATA),
        ("0.0.0.0/8", Kind.UNSPECIFIED),
        ("10.0.0.0/8", Kind.PRIVATE),
        ("100.64.0.0/10", Kind.SHARED),
        ("127.0.0.0/8", Kind.LOOPBACK),
        ("169.254.0.0/16", Kind.LINK_LOCAL),
        ("172.16.0.0/12", Kind.PRIVATE),
        ("192.0.0.0/24", Kind.RESERVED),
        ("192.0.2.0/24", Kind.RESERVED),
        ("192.88.99.0/24", Kind.TUNNEL),
        ("192.168.0.0/16", Kind.PRIVATE),
        ("198.18.0.0/15", Kind.RESERVED),
        ("198.51.100.0/24", Kind.RESERVED),
        ("203.0.113.0/24", Kind.RESERVED),
        ("224.0.0.0/4", Kind.MULTICAST),
        ("240.0.0.0/4", Kind.RESERVED),
    )
)
_V6 = tuple(
    (IPv6Network(text), kind)
    for text, kind in (
        ("::/128", Kind.UNSPECIFIED),
        ("::1/128", Kind.LOOPBACK),
        ("fd00:ec2::254/128", Kind.METADATA),
        ("fd20:ce::254/128", Kind.METADATA),
        ("fc00::/7", Kind.PRIVATE),
        ("fec0::/10", Kind.PRIVATE),
        ("fe80::/10", Kind.LINK_LOCAL),
        ("ff00::/8", Kind.MULTICAST),
        ("2002::/16", Kind.TUNNEL),  # 6to4
        ("2001::/32", Kind.TUNNEL),  # Teredo
        ("2001::/23", Kind.RESERVED),
        ("2001:db8::/32", Kind.RESERVED),
        ("3fff::/20", Kind.RESERVED),
    )
)
_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_GLOBAL_V6 = IPv6Network("2000::/3")


def kind_of(address: IPv4Address | IPv6Address) -> Kind | None:
    """None if the address is public. An IPv6 address that stands for one of IPv4 is judged by that."""
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _V4 if address in network), None)
    if address in _MAPPED or address in _NAT64:
        return kind_of(IPv4Address(int(address) & 0xFFFF_FFFF))
    found = next((kind for network, kind in _V6 if address in network), None)
    if found is None and address not in _GLOBAL_V6:
        return Kind.RESERVED
    return found


class AddressRules(Struct, frozen=True, kw_only=True):
    """Which addresses the connections of one target may have."""

    allow_inside: bool = False
    networks: tuple[Network, ...] = ()
    """That are allowed besides, for all targets."""

    def problem(self, text: str) -> str:
        """Why the address is rejected; empty if it is allowed. Anything but an IP address is rejected."""
        try:
            address = ip_address(text)
        except ValueError:
            return f"{text[:50]!r} is not an IP address"
        kind = kind_of(address)
        if kind is None or (self.allow_inside and kind in OWN_NETWORK):
            return ""
        if any(address.version == each.version and address in each for each in self.networks):
            return ""
        return f"the address {address} is inside: {kind.value}"


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Networks such as 10.1.0.0/16."""
    found = []
    for text in texts:
        try:
            found.append(ip_network(text.strip()))
        except ValueError as error:
            raise BadWebhook(
                f"{text[:50]!r} is not a network: {error}", hint="write 10.1.0.0/16 or fd12::/16"
            ) from None
    return tuple(found)
