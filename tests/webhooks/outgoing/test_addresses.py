"""Which addresses are inside, however they are written."""

from __future__ import annotations

import contextlib
import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.webhooks.errors import BadWebhook
from headrace.webhooks.outgoing.addresses import OWN_NETWORK, AddressRules, Kind, kind_of, parse_networks

CLOSED = AddressRules()
OWN = AddressRules(allow_inside=True)

INSIDE = {
    "127.0.0.1": Kind.LOOPBACK,
    "127.255.255.254": Kind.LOOPBACK,
    "::1": Kind.LOOPBACK,
    "10.0.0.1": Kind.PRIVATE,
    "172.16.0.1": Kind.PRIVATE,
    "172.31.255.255": Kind.PRIVATE,
    "192.168.1.1": Kind.PRIVATE,
    "fc00::1": Kind.PRIVATE,
    "fd12:3456::1": Kind.PRIVATE,
    "fec0::1": Kind.PRIVATE,
    "100.64.0.1": Kind.SHARED,
    "100.127.255.255": Kind.SHARED,
    "169.254.169.254": Kind.METADATA,
    "169.254.170.2": Kind.METADATA,
    "100.100.100.200": Kind.METADATA,
    "168.63.129.16": Kind.METADATA,
    "192.0.0.192": Kind.METADATA,
    "fd00:ec2::254": Kind.METADATA,
    "169.254.1.1": Kind.LINK_LOCAL,
    "fe80::1": Kind.LINK_LOCAL,
    "fe80::1%eth0": Kind.LINK_LOCAL,
    "224.0.0.1": Kind.MULTICAST,
    "239.255.255.250": Kind.MULTICAST,
    "ff02::1": Kind.MULTICAST,
    "0.0.0.0": Kind.UNSPECIFIED,
    "0.1.2.3": Kind.UNSPECIFIED,
    "::": Kind.UNSPECIFIED,
    "255.255.255.255": Kind.RESERVED,
    "240.0.0.1": Kind.RESERVED,
    "192.0.2.1": Kind.RESERVED,
    "198.51.100.1": Kind.RESERVED,
    "203.0.113.1": Kind.RESERVED,
    "198.18.0.1": Kind.RESERVED,
    "2001:db8::1": Kind.RESERVED,
    "3fff::1": Kind.RESERVED,
    "100::1": Kind.RESERVED,
    # Addresses that stand for one of IPv4.
    "::ffff:127.0.0.1": Kind.LOOPBACK,
    "::ffff:7f00:1": Kind.LOOPBACK,
    "::ffff:10.0.0.1": Kind.PRIVATE,
    "::ffff:169.254.169.254": Kind.METADATA,
    "64:ff9b::10.0.0.1": Kind.PRIVATE,
    "64:ff9b::a9fe:a9fe": Kind.METADATA,
    "64:ff9b:1::10.0.0.1": Kind.RESERVED,
    "::127.0.0.1": Kind.RESERVED,
    "::ffff:0:127.0.0.1": Kind.RESERVED,
    "2002:7f00:1::": Kind.TUNNEL,
    "2002:808:808::": Kind.TUNNEL,
    "2001:0:4136:e378:8000:63bf:3fff:fdd2": Kind.TUNNEL,
    "192.88.99.1": Kind.TUNNEL,
}
PUBLIC = (
    "1.1.1.1",
    "8.8.8.8",
    "172.15.255.255",
    "172.32.0.1",
    "100.63.255.255",
    "100.128.0.1",
    "2606:4700:4700::1111",
    "2a00:1450:4001::200e",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
)


@pytest.mark.parametrize(("address", "kind"), INSIDE.items())
def test_inside_address_is_rejected(address: str, kind: Kind) -> None:
    assert kind_of(ipaddress.ip_address(address)) is kind
    assert kind.value in CLOSED.problem(address)
    assert (OWN.problem(address) == "") is (kind in OWN_NETWORK)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_address_is_allowed(address: str) -> None:
    assert CLOSED.problem(address) == ""


@pytest.mark.parametrize(
    "text", ["", "localhost", "2130706433", "0x7f.1", "127.1", "0177.0.0.1", "1.2.3.4.5"]
)
def test_what_is_no_address_is_rejected(text: str) -> None:
    assert "is not an IP address" in OWN.problem(text)


@given(st.ip_addresses(v=4))
def test_no_address_is_allowed_that_python_knows_as_not_global(address: ipaddress.IPv4Address) -> None:
    if not address.is_global or address.is_multicast:
        assert kind_of(address) is not None


@given(st.ip_addresses(v=6))
def test_no_address_of_version_6_is_allowed_that_python_knows_as_not_global(
    address: ipaddress.IPv6Address,
) -> None:
    if not address.is_global or address.is_multicast:
        assert kind_of(address) is not None


@given(st.ip_addresses(v=4))
def test_mapped_address_is_judged_as_the_one_that_it_stands_for(address: ipaddress.IPv4Address) -> None:
    for prefix in ("::ffff:", "64:ff9b::"):
        assert kind_of(ipaddress.ip_address(f"{prefix}{address}")) is kind_of(address)


def test_networks_of_the_settings_are_allowed_besides() -> None:
    rules = AddressRules(networks=parse_networks(["10.1.0.0/16", " fd12::/16"]))
    assert rules.problem("10.1.2.3") == ""
    assert rules.problem("fd12::1") == ""
    assert "private" in rules.problem("10.2.0.1")
    assert "loopback" in rules.problem("127.0.0.1")


def test_wrong_network_is_an_error() -> None:
    with pytest.raises(BadWebhook, match="is not a network"):
        parse_networks(["10.1.0.1/16"])


@given(st.one_of(st.text(), st.from_regex(r"[0-9a-f.:]{1,20}/[0-9]{1,3}", fullmatch=True)))
def test_any_text_is_a_network_or_an_error(text: str) -> None:
    with contextlib.suppress(BadWebhook):
        (network,) = parse_networks([text])
        assert parse_networks([str(network)]) == (network,)
