"""A target of a queue: accepted when delivered, redelivered when failed, and a dead letter when rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.kafka.cluster import Cluster
from headrace.queue.dead_letters import DeadLetters
from headrace.webhooks.catalog import Catalog
from headrace.webhooks.outgoing.attempts import read_attempts
from headrace.webhooks.outgoing.queue_run import LOCK_MS_MAX, group_settings
from headrace.webhooks.outgoing.settings import OutgoingSettings
from headrace.webhooks.outgoing.target import QUEUE_TIMEOUT_MS_MAX, Target
from tests.webhooks.outgoing.conftest import Deliver, Receiver, Write, folder_of, target_of, wait_until

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def target(receiver: Receiver, topic: str) -> Target:
    return target_of("", receiver.url(), queue=topic, filter="amount > 100", parallel=2)


def test_messages_are_delivered_once_and_not_again_after_a_restart(
    deliver: Deliver, receiver: Receiver, catalog: Catalog[Target], topic: str, target: Target, write: Write
) -> None:
    catalog.add(target)
    write(topic, *(b'{"amount": %d}' % amount for amount in range(96, 106)))
    first = deliver()
    wait_until(lambda: len(receiver.received()) == 5)
    first.stop()
    write(topic, b'{"amount": 500}')
    deliver()
    wait_until(lambda: len(receiver.received()) == 6)
    assert sorted(receiver.bodies()) == sorted(
        [*(b'{"amount": %d}' % amount for amount in range(101, 106)), b'{"amount": 500}']
    )


def test_failed_message_is_redelivered_with_its_id(
    deliver: Deliver,
    receiver: Receiver,
    catalog: Catalog[Target],
    tmp_path: Path,
    topic: str,
    target: Target,
    write: Write,
) -> None:
    receiver.answers["/hook"] = 503
    catalog.add(target)
    write(topic, b'{"amount": 101}')
    deliver(retry_ms_first=100)
    wait_until(lambda: len(receiver.received()) == 2)
    receiver.answers["/hook"] = 204
    folder = folder_of(tmp_path, target)
    wait_until(lambda: folder.status().delivered == 1)
    assert len({each.id for each in receiver.received()}) == 1
    wait_until(lambda: bool(read_attempts(folder.path, count=10)))
    assert read_attempts(folder.path, count=1)[0].number == len(receiver.received())


def test_rejected_message_is_a_dead_letter_with_the_reason(
    deliver: Deliver,
    receiver: Receiver,
    catalog: Catalog[Target],
    cluster: Cluster,
    topic: str,
    target: Target,
    write: Write,
) -> None:
    receiver.answers["/hook"] = 422
    catalog.add(target)
    write(topic, b'{"amount": 101}', b"no JSON")
    deliver(rejected_attempts_max=2, retry_ms_first=10)
    letters = DeadLetters(target.group, bootstrap=cluster.bootstrap)
    wait_until(lambda: letters.count() == 2)
    reasons = {each.value: each.reason for each in letters.read()}
    assert reasons[b'{"amount": 101}'] == "HTTP 422, after 2 attempts"
    assert "not a JSON object" in reasons[b"no JSON"]


def test_gone_target_is_paused_and_its_message_is_delivered_later(
    deliver: Deliver,
    receiver: Receiver,
    catalog: Catalog[Target],
    tmp_path: Path,
    topic: str,
    target: Target,
    write: Write,
) -> None:
    receiver.answers["/hook"] = 410
    catalog.add(target)
    write(topic, b'{"amount": 101}')
    deliver(retry_ms_first=10)
    folder = folder_of(tmp_path, target)
    wait_until(lambda: folder.paused() is not None)
    receiver.answers["/hook"] = 204
    folder.resume()
    wait_until(lambda: folder.status().delivered == 1)


def test_lock_is_longer_than_the_requests_that_share_it(target: Target) -> None:
    settings = OutgoingSettings()
    lock_ms = int(group_settings(target, settings)["share.record.lock.duration.ms"])
    assert lock_ms > 2 * target.timeout_ms
    assert LOCK_MS_MAX > 3 * QUEUE_TIMEOUT_MS_MAX
