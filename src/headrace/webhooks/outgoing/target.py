"""The definition of a webhook out: what it reads, where it sends it, and how."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from headrace.conditions import BadCondition, parse_condition
from headrace.webhooks.catalog import Definition
from headrace.webhooks.errors import BadWebhook
from headrace.webhooks.outgoing.addresses import AddressRules, parse_networks
from headrace.webhooks.outgoing.urls import parse_target_url
from headrace.webhooks.secrets import Secret, standard_key

PARALLEL = 16
PARALLEL_MAX = 256
"""Connections of one target; each costs a descriptor and some 50 KB."""

TIMEOUT_MS = 10_000
TIMEOUT_MS_MAX = 60_000
QUEUE_TIMEOUT_MS_MAX = 15_000
"""The lock of a message lasts a minute at most, and a few messages share it."""

HEADERS_MAX = 32
HEADER_CHARACTERS_MAX = 4_096

GROUP_PREFIX = "headrace-webhook-"

Envelope = Literal["none", "cloudevents"]

_ALL_NETWORKS = parse_networks(["0.0.0.0/0", "::/0"])
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = frozenset(
    {"connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)


class Target(Definition, frozen=True, kw_only=True):
    topic: str = ""
    queue: str = ""
    """Instead of the topic: its records are messages, shared by all that deliver for this target."""
    url: str
    filter: str = ""
    """A condition; empty: everything."""
    secrets: tuple[Secret, ...]
    envelope: Envelope = "none"
    ordered_by_key: bool = False
    parallel: int = PARALLEL
    timeout_ms: int = TIMEOUT_MS
    headers: Mapping[str, str] = {}
    allow_inside: bool = False

    @property
    def source(self) -> str:
        return self.topic or self.queue

    @property
    def group(self) -> str:
        return GROUP_PREFIX + self.name

    def check(self) -> None:
        if bool(self.topic) == bool(self.queue):
            raise BadWebhook(f"webhook out {self.name} needs a topic or a queue", hint="--topic or --queue")
        # Which networks the settings allow is unknown here: addresses are checked when they are added and dialled.
        parse_target_url(self.url, AddressRules(allow_inside=self.allow_inside, networks=_ALL_NETWORKS))
        if not self.secrets:
            raise BadWebhook(f"webhook out {self.name} has no secret", hint="requests have to be signed")
        for each in self.secrets:
            standard_key(each.text)
        _check_range("--parallel", self.parallel, PARALLEL_MAX)
        _check_range("--timeout in ms", self.timeout_ms, TIMEOUT_MS_MAX)
        if self.queue and self.timeout_ms > QUEUE_TIMEOUT_MS_MAX:
            raise BadWebhook(
                "--timeout is longer than the lock of messages of a queue allows",
                hint=f"at most {QUEUE_TIMEOUT_MS_MAX // 1000}s",
            )
        _check_headers(self.headers)
        if self.filter:
            try:
                parse_condition(self.filter)
            except BadCondition as error:
                raise BadWebhook(f"--filter: {error.message}", hint=error.hint) from error


def _check_range(option: str, number: int, most: int) -> None:
    if not 1 <= number <= most:
        raise BadWebhook(f"{option} is {number:,}", hint=f"from 1 to {most:,}")


def _check_headers(headers: Mapping[str, str]) -> None:
    if len(headers) > HEADERS_MAX:
        raise BadWebhook(f"there are {len(headers)} headers", hint=f"at most {HEADERS_MAX}")
    for name, text in headers.items():
        if not _TOKEN.fullmatch(name):
            raise BadWebhook(f"{name[:50]!r} can't be the name of a header", hint="letters, digits and -")
        if name.lower() in _OWN_HEADERS or name.lower().startswith("webhook-"):
            raise BadWebhook(f"the header {name} is set by each request", hint="leave it out")
        if len(text) > HEADER_CHARACTERS_MAX or not text.isprintable() or not text.isascii():
            raise BadWebhook(
                f"the header {name} has a value that can't be sent",
                hint=f"printable ASCII, at most {HEADER_CHARACTERS_MAX:,} characters",
            )
