"""Whether a request is from its sender: the raw body and the headers against the secrets. No I/O, and no parsing of
the body."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.webhooks.incoming.request import AmbiguousHeader, WebhookRequest
from headrace.webhooks.incoming.signatures import github, plain_hmac, standard, stripe
from headrace.webhooks.incoming.signatures.verdict import Rejected, Why
from headrace.webhooks.incoming.source import Kind, Source

Verifier = Callable[[Source, WebhookRequest, int], None]

_VERIFIERS: Mapping[Kind, Verifier] = {
    "github": github.verify,
    "plain-hmac": plain_hmac.verify,
    "standard": standard.verify,
    "stripe": stripe.verify,
    "none": lambda _source, _request, _now_ms: None,
}


def verify(source: Source, request: WebhookRequest, now_ms: int) -> None:
    """Raise Rejected if the request is not signed with a secret that is valid now, or not signed at about this time."""
    try:
        _VERIFIERS[source.kind](source, request, now_ms)
    except AmbiguousHeader:
        raise Rejected(Why.AMBIGUOUS) from None
