"""All targets of a data folder: started, changed, paused and stopped while the process runs."""

from __future__ import annotations

from standardwebhooks import Webhook

from headrace.kafka.cluster import Cluster
from headrace.webhooks.catalog import Catalog
from headrace.webhooks.outgoing.target import Target
from tests.webhooks.outgoing.conftest import (
    SECRET,
    Deliver,
    Receiver,
    Write,
    committed,
    target_of,
    wait_until,
)


def test_records_are_delivered_signed_and_committed(
    deliver: Deliver,
    receiver: Receiver,
    catalog: Catalog[Target],
    cluster: Cluster,
    topic: str,
    write: Write,
) -> None:
    target = target_of(topic, receiver.url(), filter="amount > 100")
    catalog.add(target)
    write(topic, b'{"amount": 99}', b'{"amount": 101}', b'{"amount": 500}')
    deliver()

    wait_until(lambda: len(receiver.received()) == 2)
    assert sorted(receiver.bodies()) == [b'{"amount": 101}', b'{"amount": 500}']
    for each in receiver.received():
        Webhook(SECRET).verify(each.body, dict(each.headers))
        assert each.headers["content-type"] == "application/json"
    wait_until(lambda: committed(cluster, target).get(0) == 3)
