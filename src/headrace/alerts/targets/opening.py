"""The target of an address."""

from __future__ import annotations

from headrace.alerts.definition import Target
from headrace.alerts.errors import BadAlert
from headrace.alerts.targets.sender import Sender
from headrace.alerts.targets.vapid import VapidKeys
from headrace.redaction import redacted

KINDS = "mailto://, mailtos://, http(s)://, webpush://FILE, or an address of apprise such as slack://…"


def open_sender(target: Target, keys: VapidKeys | None) -> Sender:
    """BadAlert if the address is not one of a target."""
    scheme, separator, _ = target.address.partition("://")
    match scheme.lower() if separator else "":
        case "mailto" | "mailtos":
            from headrace.alerts.targets.mail import MailSender

            return MailSender(target.address)
        case "http" | "https":
            from headrace.alerts.targets.webhook import WebhookSender

            return WebhookSender(target.address)
        case "webpush":
            from headrace.alerts.targets.web_push import WebPushSender

            return WebPushSender(target, keys)
        case "":
            raise BadAlert(f"{target.address!r} is not an address", hint=KINDS)
    from headrace.alerts.targets.apprise_services import AppriseSender

    return AppriseSender(target.address)


def shown_address(target: Target) -> str:
    """Without what is secret: addresses of chat services have their tokens where others have hosts and paths."""
    scheme = target.address.partition("://")[0].lower()
    if scheme in ("mailto", "mailtos"):
        from headrace.alerts.targets.mail import recipients_of

        return f"{scheme}:{','.join(recipients_of(target.address))}"
    if scheme in ("http", "https"):
        return redacted(target.address)
    if scheme == "webpush":
        from headrace.alerts.targets.web_push import host_of

        return f"webpush://{host_of(target)}"
    return f"{scheme}://…"
