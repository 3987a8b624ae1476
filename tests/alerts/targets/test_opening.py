"""The target of an address, and how it is shown."""

from __future__ import annotations

import pytest

from headrace.alerts.definition import Target
from headrace.alerts.errors import BadAlert
from headrace.alerts.targets.apprise_services import AppriseSender
from headrace.alerts.targets.mail import MailSender
from headrace.alerts.targets.opening import open_sender, shown_address
from headrace.alerts.targets.sender import Sender
from headrace.alerts.targets.webhook import WebhookSender


def target(address: str) -> Target:
    return Target(id="t", address=address)


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("mailto://host?to=a@example.com", MailSender),
        ("MAILTOS://host?to=a@example.com", MailSender),
        ("https://host/path", WebhookSender),
        ("json://host/path", AppriseSender),
    ],
)
def test_scheme_chooses_the_target(address: str, kind: type[Sender]) -> None:
    assert isinstance(open_sender(target(address), None), kind)


def test_address_without_a_scheme_names_the_kinds() -> None:
    with pytest.raises(BadAlert) as failed:
        open_sender(target("ann@example.com"), None)
    assert "mailto://" in failed.value.hint


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("mailto://ann:secret@host?to=a@example.com,b@example.com", "mailto:a@example.com,b@example.com"),
        ("https://ann:secret@host/path?token=secret#whsec_secret", "https://host/path"),
        ("slack://secret/secret/secret", "slack://…"),
    ],
)
def test_shown_address_has_no_secret(address: str, shown: str) -> None:
    assert shown_address(target(address)) == shown
