"""One request outside of the topic."""

from __future__ import annotations

import asyncio

from standardwebhooks import Webhook

from headrace.clock import SystemClock
from headrace.webhooks.outgoing.sample import SAMPLE, send_sample
from headrace.webhooks.outgoing.settings import OutgoingSettings
from tests.webhooks.outgoing.conftest import SECRET, Receiver, target_of


def test_sample_is_signed_and_has_an_id_of_its_own(receiver: Receiver) -> None:
    target = target_of("orders", receiver.url())
    ids = [
        asyncio.run(send_sample(target, OutgoingSettings(), SystemClock(), value=value))[0]
        for value in (SAMPLE, b"own")
    ]
    assert len({*ids}) == 2
    assert receiver.bodies() == [SAMPLE, b"own"]
    assert [each.id for each in receiver.received()] == ids
    Webhook(SECRET).verify(SAMPLE, dict(receiver.received()[0].headers))
