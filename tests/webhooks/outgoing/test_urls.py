"""URLs of targets: what is no URL of a webhook is rejected, in whatever way it is written."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.webhooks.errors import BadWebhook
from headrace.webhooks.outgoing.addresses import AddressRules, kind_of
from headrace.webhooks.outgoing.urls import URL_CHARACTERS_MAX, parse_target_url

CLOSED = AddressRules()
OWN = AddressRules(allow_inside=True)


@pytest.mark.parametrize(
    "text",
    [
        "https://shop.example/hook",
        "https://shop.example",
        "https://shop.example:8443/hook?source=headrace&a=%20",
        "https://1.1.1.1/hook",
        "https://[2606:4700:4700::1111]/hook",
        "https://1.example/hook",
    ],
)
def test_public_url_is_allowed_and_unchanged(text: str) -> None:
    url = parse_target_url(text, CLOSED)
    assert str(url).rstrip("/") == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("http://shop.example/hook", "is not encrypted"),
        ("ftp://shop.example/hook", "is not a URL of HTTP"),
        ("file:///etc/passwd", "is not a URL of HTTP"),
        ("shop.example/hook", "is not a URL of HTTP"),
        ("https:///hook", "is not a URL"),
        ("https://user:pass@shop.example/", "has a user or a password"),
        ("https://user@shop.example/", "has a user or a password"),
        ("https://shop.example@127.0.0.1/", "has a user or a password"),
        ("https://shop.example/#part", "has a fragment"),
        ("https://shop.example\\@127.0.0.1/", "has spaces, backslashes"),
        ("https://shop.example /hook", "has spaces"),
        ("https://shop.example/\r\nX: y", "has spaces"),
        ("https://shöp.example/", "has spaces"),
        ("https://127%2e0.0.1/", "is not a URL|has a host with %"),
        ("https://[fe80::1%25eth0]/", "is not a URL|has a host with %"),
        ("https://127.0.0.1/", "loopback"),
        ("https://[::1]/", "loopback"),
        ("https://[::ffff:127.0.0.1]/", "loopback"),
        ("https://[::ffff:7f00:1]/", "loopback"),
        ("https://169.254.169.254/latest/meta-data", "metadata"),
        ("https://2130706433/", "not an address in its usual form"),
        ("https://0x7f000001/", "not an address in its usual form"),
        ("https://0x7f.0.0.1/", "not an address in its usual form"),
        ("https://0177.0.0.1/", "not an address in its usual form"),
        ("https://127.1/", "not an address in its usual form"),
        ("https://127.0.0.1./", "not an address in its usual form"),
        ("https://1.2.3/", "not an address in its usual form"),
        ("https://0/", "not an address in its usual form"),
        ("https://shop.example:22/", "port 22 is not one of HTTP"),
        ("https://shop.example:25/", "port 25 is not one of HTTP"),
        ("https://shop.example:0/", "port 0 is not one of HTTP"),
        ("https://shop.example:99999/", "is not a URL"),
        ("https://shop.example/" + "x" * URL_CHARACTERS_MAX, "more than"),
    ],
)
def test_other_url_is_rejected(text: str, problem: str) -> None:
    with pytest.raises(BadWebhook, match=problem):
        parse_target_url(text, CLOSED)


def test_own_network_is_allowed_only_if_it_is_set() -> None:
    for text in ("http://127.0.0.1:8080/hook", "http://10.0.0.1/", "https://[fd12::1]/"):
        assert str(parse_target_url(text, OWN)) == text
    for text in ("http://169.254.169.254/", "http://[fe80::1]/", "http://0.0.0.0/"):
        with pytest.raises(BadWebhook, match="is inside"):
            parse_target_url(text, OWN)


def test_password_is_in_no_message() -> None:
    with pytest.raises(BadWebhook) as caught:
        parse_target_url("https://ann:s3cret@shop.example/?key=s3cret", CLOSED)
    assert "s3cret" not in str(caught.value)


@given(st.text(max_size=60).map(lambda rest: "https://" + rest))
def test_any_text_is_a_url_of_http_or_an_error_of_ours(text: str) -> None:
    try:
        url = parse_target_url(text, CLOSED)
    except BadWebhook:
        return
    assert url.scheme == "https"
    assert url.host
    assert url.user is None
    assert url.password is None


@given(st.ip_addresses(), st.sampled_from(["", ":443", ":8443"]))
def test_literal_address_is_judged_as_the_address(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: str
) -> None:
    host = f"[{address}]" if address.version == 6 else str(address)
    if kind_of(address) is None:
        parse_target_url(f"https://{host}{port}/", CLOSED)
    else:
        with pytest.raises(BadWebhook, match="is inside"):
            parse_target_url(f"https://{host}{port}/", CLOSED)
