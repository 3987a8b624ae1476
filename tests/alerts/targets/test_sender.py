"""Every target is a sender."""

from __future__ import annotations

import pytest

from headrace.alerts.targets.apprise_services import AppriseSender
from headrace.alerts.targets.mail import MailSender
from headrace.alerts.targets.sender import Sender
from headrace.alerts.targets.web_push import WebPushSender
from headrace.alerts.targets.webhook import WebhookSender


@pytest.mark.parametrize("kind", [AppriseSender, MailSender, WebPushSender, WebhookSender])
def test_every_target_keeps_the_contract(kind: type[Sender]) -> None:
    assert issubclass(kind, Sender)
    with pytest.raises(TypeError):
        Sender()  # type: ignore[abstract]
