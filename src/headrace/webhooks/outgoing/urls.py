"""The URL of a target. It is parsed once, by the library that dials it, so that both see the same host."""

from __future__ import annotations

import re
from ipaddress import IPv4Address

from yarl import URL

from headrace.redaction import ESCAPE_HINT, redacted
from headrace.webhooks.errors import BadWebhook
from headrace.webhooks.outgoing.addresses import AddressRules

URL_CHARACTERS_MAX = 2_048

WELL_KNOWN_PORTS = frozenset({80, 443})
"""Of the ports below 1024: the others belong to mail, shells and other protocols that would read the request."""

_VISIBLE = re.compile(r"[\x21-\x7e]+")
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*", re.IGNORECASE)


def parse_target_url(text: str, rules: AddressRules) -> URL:
    """Raise BadWebhook if a webhook can't be sent there. Names are resolved later, at each connection."""
    if len(text) > URL_CHARACTERS_MAX:
        raise BadWebhook(f"the URL has more than {URL_CHARACTERS_MAX:,} characters", hint="use a shorter one")
    shown = repr(redacted(text))
    if not _VISIBLE.fullmatch(text) or "\\" in text:
        raise BadWebhook(
            f"{shown} has spaces, backslashes or other characters that a URL has not",
            hint="write names with other letters as xn--…, and other characters as %20",
        )
    try:
        url = URL(text)
        host, port = url.host, url.port
    except ValueError as error:
        raise BadWebhook(f"{shown} is not a URL: {error}", hint="write https://shop.example/hook") from None
    if url.scheme not in ("http", "https") or not host:
        raise BadWebhook(f"{shown} is not a URL of HTTP", hint="write https://shop.example/hook")
    if "@" in url.raw_authority:
        raise BadWebhook(
            f"{shown} has a user or a password", hint="--header 'Authorization: Basic …' sends them"
        )
    if "%" in url.raw_authority:
        raise BadWebhook(f"{shown} has a host with %", hint=f"write the host as it is; {ESCAPE_HINT}")
    if url.raw_fragment:
        raise BadWebhook(f"{shown} has a fragment after #", hint="leave it out: a request does not send it")
    if url.scheme == "http" and not rules.allow_inside:
        raise BadWebhook(
            f"{shown} is not encrypted",
            hint="use https://, or --allow-inside for a target of your own network",
        )
    _check_host(host, rules)
    if port is not None and port < 1024 and port not in WELL_KNOWN_PORTS:
        raise BadWebhook(f"port {port} is not one of HTTP", hint="use 80, 443, or a port from 1024 on")
    return url


def _check_host(host: str, rules: AddressRules) -> None:
    """A host of digits is an address in the usual form only: other forms have other meanings for other programs."""
    if ":" in host:
        problem = rules.problem(host)
    elif _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
        try:
            problem = rules.problem(str(IPv4Address(host)))
        except ValueError:
            raise BadWebhook(
                f"the host {host} is not an address in its usual form", hint="write it such as 192.0.2.1"
            ) from None
    else:
        return
    if problem:
        raise BadWebhook(problem, hint="--allow-inside allows loopback and private networks")
