"""The definition of a source: `DATA_DIR/webhooks/in/NAME.json`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Struct

from headrace.topic_names import InvalidTopicName, check_topic_name
from headrace.webhooks.catalog import Catalog, Definition, check_name
from headrace.webhooks.errors import BadWebhook
from headrace.webhooks.secrets import SECRETS_MAX, Secret, check_secret, standard_key

Kind = Literal["github", "stripe", "standard", "plain-hmac", "none"]
Algorithm = Literal["sha256", "sha384", "sha512", "sha1"]
Encoding = Literal["hex", "base64", "base64url"]

TOLERANCE_S = 300
"""What Standard Webhooks and Stripe recommend: clocks differ less, and a retry is signed again."""

WINDOW_S = 86_400
"""How long ids are known. Senders repeat a request for hours if they got no answer."""

IDS_MAX = 200_000
RATE_PER_S_MAX = 100
BODY_BYTES_MAX = 1_000_000
"""A topic with default configs takes a record of this size."""

BODY_BYTES_LIMIT = 100_000_000
"""A request to a broker has at most 100 MiB."""

KEYS_PER_REQUEST = 2
"""A request is known by its id, and some by their body, too."""

BURST_S = 2
"""Of requests at the limit that may come at once."""

COPIED_HEADERS_MAX = 20

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


class HmacRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a sender of kind plain-hmac signs."""

    header: str = "x-signature"
    algorithm: Algorithm = "sha256"
    encoding: Encoding = "hex"
    prefix: str = ""
    """In front of the signature, such as `sha256=`."""
    signed: str = "{body}"
    """What is signed: text with {body}, and {timestamp} and {id} from their headers."""
    timestamp_header: str = ""
    """Has seconds since 1970."""

    @property
    def placeholders(self) -> list[str]:
        return _PLACEHOLDER.findall(self.signed)


class Source(Definition, frozen=True, kw_only=True):
    kind: Kind
    topic: str
    secrets: tuple[Secret, ...] = ()
    hmac: HmacRule | None = None
    """Of kind plain-hmac, and of no other."""
    key_field: str = ""
    key_header: str = ""
    id_field: str = ""
    id_header: str = ""
    """Of a kind that has its id elsewhere, or none."""
    event_field: str = ""
    event_header: str = ""
    headers: tuple[str, ...] = ()
    """Of the request, which the event gets, too."""
    tolerance_s: Annotated[int, "two-sided"] = TOLERANCE_S
    window_s: int = WINDOW_S
    ids_max: int = IDS_MAX
    body_bytes_max: int = BODY_BYTES_MAX
    rate_per_s_max: int = RATE_PER_S_MAX

    def check(self) -> None:
        check_name(self.name)
        try:
            check_topic_name(self.topic)
        except InvalidTopicName as error:
            raise BadWebhook(error.message, hint=error.hint) from error
        self._check_secrets()
        self._check_hmac()
        self._check_places()
        self._check_limits()

    def _check_secrets(self) -> None:
        if self.kind == "none":
            if self.secrets:
                raise BadWebhook("kind none verifies nothing and has no secret", hint="choose another kind")
            return
        if not self.secrets or len(self.secrets) > SECRETS_MAX:
            raise BadWebhook(
                f"a source of kind {self.kind} has 1 to {SECRETS_MAX} secrets, not {len(self.secrets)}",
                hint="pass it with --secret-stdin or --secret-file, or let --generate-secret make one",
            )
        for each in self.secrets:
            check_secret(each.text)
            if self.kind == "standard":
                standard_key(each.text)

    def _check_hmac(self) -> None:
        rule = self.hmac
        if (rule is None) == (self.kind == "plain-hmac"):
            raise BadWebhook(
                f"a source of kind {self.kind} and a rule for signatures do not fit together",
                hint="kind plain-hmac needs one; the others know their own",
            )
        if rule is None:
            return
        _check_header(rule.header)
        if rule.timestamp_header:
            _check_header(rule.timestamp_header)
        names = rule.placeholders
        if names.count("body") != 1 or len(set(names)) != len(names) or not set(names) <= _PLACEHOLDERS:
            raise BadWebhook(
                f"{rule.signed!r} is not what a sender signs",
                hint="write {body} once, and {timestamp} and {id} if they are signed: v0:{timestamp}:{body}",
            )
        if ("timestamp" in names) != bool(rule.timestamp_header):
            raise BadWebhook(
                "a timestamp protects only if it is signed",
                hint="set both: the header of the timestamp, and {timestamp} in what is signed",
            )
        if "id" in names and not self.id_header:
            raise BadWebhook("the id is signed, but its header is not set", hint="set the header of the id")

    def _check_places(self) -> None:
        for field, header, what in (
            (self.key_field, self.key_header, "key"),
            (self.id_field, self.id_header, "id"),
            (self.event_field, self.event_header, "event type"),
        ):
            if field and header:
                raise BadWebhook(f"the {what} is in a field or in a header, not both", hint="set one of them")
            if header:
                _check_header(header)
            if field and not all(field.split(".")):
                raise BadWebhook(f"{field!r} is not a field", hint="write names with dots: repository.id")
        if len(self.headers) > COPIED_HEADERS_MAX:
            raise BadWebhook(f"more than {COPIED_HEADERS_MAX} headers are copied", hint="copy fewer")
        for each in self.headers:
            _check_header(each)
        if (self.id_field or self.id_header) and self.kind in _KINDS_WITH_ID:
            raise BadWebhook(f"requests of kind {self.kind} have an id of their own", hint="set no other")

    def _check_limits(self) -> None:
        limits = {
            "the tolerance": (self.tolerance_s, 1, 3_600),
            "the window": (self.window_s, 0, 30 * 86_400),
            "the largest body": (self.body_bytes_max, 1, BODY_BYTES_LIMIT),
            "the rate": (self.rate_per_s_max, 1, 10_000),
            "the number of ids": (self.ids_max, 1, 10_000_000),
        }
        for what, (value, least, most) in limits.items():
            if not least <= value <= most:
                raise BadWebhook(f"{what} is {value:,}", hint=f"choose {least:,} to {most:,}")
        needed = KEYS_PER_REQUEST * self.rate_per_s_max * (2 * self.tolerance_s + BURST_S)
        if self.has_timestamp and self.ids_max < needed:
            raise BadWebhook(
                f"{self.ids_max:,} ids are fewer than may come while a signature is valid",
                hint=f"keep at least {needed:,}, or lower the rate or the tolerance",
            )

    @property
    def has_timestamp(self) -> bool:
        """Whether a signature is valid for a time only."""
        return self.kind in ("standard", "stripe") or bool(self.hmac and self.hmac.timestamp_header)

    @property
    def replay_window_ms(self) -> int:
        """How long an id is known. A request from the future is valid for two tolerances."""
        least_s = 2 * self.tolerance_s if self.has_timestamp else 0
        return 1000 * max(self.window_s, least_s)

    def valid_secrets(self, now_ms: int) -> list[str]:
        return [each.text for each in self.secrets if each.is_valid(now_ms)]


_PLACEHOLDERS = frozenset({"body", "timestamp", "id"})
_KINDS_WITH_ID = ("github", "stripe", "standard")

KINDS: Mapping[Kind, str] = {
    "github": "X-Hub-Signature-256",
    "stripe": "Stripe-Signature, with a timestamp",
    "standard": "Standard Webhooks: webhook-signature, with a timestamp",
    "plain-hmac": "an HMAC in a header; the options say which",
    "none": "nothing is verified: whoever reaches the gateway can write events",
}


def _check_header(name: str) -> None:
    if not _HEADER.fullmatch(name):
        raise BadWebhook(f"{name!r} can't be the name of a header", hint="write it as in HTTP: X-Signature")


def sources(data_dir: Path) -> Catalog[Source]:
    return Catalog(data_dir, "in", Source)
