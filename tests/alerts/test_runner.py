"""Alerts from a topic to people, with a real broker and a real mail server."""

from __future__ import annotations

from tests.alerts.conftest import Lab, wait_until
from tests.alerts.servers import MailServer


def test_key_that_fires_is_mailed_and_resolved_once(lab: Lab, mail: MailServer) -> None:
    lab.topic()
    lab.add("errors", mail.address())
    with lab.running():
        lab.write({"level": "ERROR", "service": "checkout"})
        mail.wait_for(lambda mails: len(mails) == 1)
        lab.write({"level": "INFO", "service": "search"}, {"level": "INFO", "service": "checkout"})
        mail.wait_for(lambda mails: len(mails) == 2)
        wait_until(lambda: lab.events().count("delivered") == 2)
    assert lab.failure is None
    assert mail.subjects == ["errors fires: service=checkout", "errors resolved: service=checkout"]
    assert len(set(mail.ids)) == 2
    assert lab.events() == ["firing", "notifying", "delivered", "resolved", "notifying", "delivered"]
    assert lab.stored().waiting == {}
