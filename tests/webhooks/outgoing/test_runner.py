"""All targets of a data folder: started, changed, paused and stopped while the process runs."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from aiohttp import web
from msgspec.structs import replace
from standardwebhooks import Webhook

from headrace.clock import SystemClock
from headrace.kafka.cluster import Cluster
from headrace.queue.dead_letters import DeadLetters
from headrace.testing.manual_clock import ManualClock
from headrace.webhooks.catalog import Catalog
from headrace.webhooks.errors import BadWebhook
from headrace.webhooks.outgoing.state import TargetFolder, TargetState, runner_lock
from headrace.webhooks.outgoing.target import Target
from headrace.webhooks.secrets import generate_secret, rotated
from tests.webhooks.outgoing.conftest import (
    SECRET,
    Deliver,
    Receiver,
    Write,
    committed,
    folder_of,
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


def test_target_that_is_added_starts_and_one_that_is_removed_ends_without_files(
    deliver: Deliver,
    receiver: Receiver,
    catalog: Catalog[Target],
    tmp_path: Path,
    topic: str,
    write: Write,
) -> None:
    deliver()
    target = target_of(topic, receiver.url())
    catalog.add(target)
    write(topic, b"1")
    wait_until(lambda: receiver.bodies() == [b"1"])
    catalog.remove(target.name)
    folder_of(tmp_path, target).remove()
    other = target_of(topic, receiver.url("/other"))
    catalog.add(other)
    wait_until(lambda: receiver.bodies("/other") == [b"1"])
    wait_until(lambda: not folder_of(tmp_path, target).path.exists())
    write(topic, b"2")
    wait_until(lambda: receiver.bodies("/other") == [b"1", b"2"])
    assert receiver.bodies() == [b"1"]


def test_changed_definition_is_used_for_the_next_record(
    deliver: Deliver, receiver: Receiver, catalog: Catalog[Target], topic: str, write: Write
) -> None:
    """A rotated secret signs beside the old one, without a restart of the process."""
    target = target_of(topic, receiver.url())
    catalog.add(target)
    deliver()
    write(topic, b"1")
    wait_until(lambda: len(receiver.received()) == 1)
    new = generate_secret()
    secrets = rotated(target.secrets, new, now_ms=SystemClock().now_ms(), overlap_ms=3_600_000)
    catalog.replace(replace(target, secrets=secrets))

    def is_signed_by_both() -> bool:
        write(topic, b"2")
        return len(receiver.received()[-1].headers["webhook-signature"].split(" ")) == 2

    wait_until(is_signed_by_both)
    last = receiver.received()[-1]
    for secret in (SECRET, new):
        Webhook(secret).verify(last.body, dict(last.headers))


def test_paused_target_keeps_its_position_and_continues(
    deliver: Deliver,
    receiver: Receiver,
    catalog: Catalog[Target],
    tmp_path: Path,
    topic: str,
    write: Write,
) -> None:
    target = target_of(topic, receiver.url())
    catalog.add(target)
    deliver()
    write(topic, b"1")
    wait_until(lambda: receiver.bodies() == [b"1"])
    folder = folder_of(tmp_path, target)
    folder.pause("a test", 5)
    wait_until(lambda: TargetState.PAUSED in _written(folder))
    write(topic, b"2")
    folder.resume()
    wait_until(lambda: receiver.bodies() == [b"1", b"2"])
    wait_until(lambda: folder.status().state is TargetState.RUNNING)


def _written(folder: TargetFolder) -> str:
    """The state that the runner wrote itself."""
    return (folder.path / "status.json").read_text()


def test_gone_target_is_paused_until_a_person_resumes_it(
    deliver: Deliver,
    receiver: Receiver,
    catalog: Catalog[Target],
    tmp_path: Path,
    topic: str,
    write: Write,
) -> None:
    receiver.answers["/hook"] = 410
    target = target_of(topic, receiver.url())
    catalog.add(target)
    deliver()
    write(topic, b"1")
    folder = folder_of(tmp_path, target)
    wait_until(lambda: folder.paused() is not None)
    assert "HTTP 410" in folder.status().error
    receiver.answers["/hook"] = 204
    folder.resume()
    wait_until(lambda: receiver.bodies() == [b"1", b"1"])
    first, second = receiver.received()
    assert first.id == second.id


def test_target_that_fails_for_a_day_is_paused(
    deliver: Deliver,
    receiver: Receiver,
    catalog: Catalog[Target],
    tmp_path: Path,
    topic: str,
    write: Write,
) -> None:
    receiver.answers["/hook"] = 500
    clock = ManualClock()
    target = target_of(topic, receiver.url())
    catalog.add(target)
    deliver(clock=clock)
    write(topic, b"1")
    folder = folder_of(tmp_path, target)

    def is_paused_as_time_passes() -> bool:
        clock.advance_ms(600_000)
        return folder.paused() is not None

    wait_until(is_paused_as_time_passes)
    assert "no success since the first failure" in folder.status().error
    assert len(receiver.received()) >= 2


def test_hanging_failing_and_redirecting_targets_slow_no_other(
    deliver: Deliver, receiver: Receiver, catalog: Catalog[Target], topic: str, write: Write
) -> None:
    hangs = threading.Event()

    async def hang(_request: web.Request, _body: bytes) -> web.StreamResponse:
        await asyncio.to_thread(hangs.wait, 60)
        return web.Response(status=204)

    async def redirect(_request: web.Request, _body: bytes) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": receiver.url()})

    receiver.answers |= {"/hang": hang, "/fail": 500, "/redirect": redirect}
    for path in ("/hang", "/fail", "/redirect", "/hook"):
        catalog.add(target_of(topic, receiver.url(path), parallel=2, timeout_ms=60_000))
    write(topic, *(b"%d" % number for number in range(500)))
    deliver()
    try:
        wait_until(lambda: len(receiver.received()) == 500)
        wait_until(lambda: len(receiver.received("/hang")) == 2, "its requests hang all the time")
    finally:
        hangs.set()


def test_damaged_definition_stops_no_other(
    deliver: Deliver, receiver: Receiver, catalog: Catalog[Target], topic: str, write: Write
) -> None:
    catalog.add(target_of(topic, receiver.url()))
    (catalog.folder / "broken.json").write_text("{")
    write(topic, b"1")
    deliver()
    wait_until(lambda: receiver.bodies() == [b"1"])


def test_second_process_for_a_data_folder_is_an_error(deliver: Deliver, tmp_path: Path) -> None:
    deliver()
    wait_until(lambda: runner_lock(tmp_path).is_taken())
    with pytest.raises(BadWebhook, match="another process delivers"):
        deliver().stop()


def test_redriven_letter_goes_to_its_own_target_with_its_own_id(
    deliver: Deliver,
    receiver: Receiver,
    catalog: Catalog[Target],
    cluster: Cluster,
    topic: str,
    write: Write,
) -> None:
    receiver.answers["/hook"] = 422
    target, other = target_of(topic, receiver.url()), target_of(topic, receiver.url("/other"))
    for each in (target, other):
        catalog.add(each)
    write(topic, b'{"amount": 1}', key=b"k")
    deliver(rejected_attempts_max=1)
    letters = DeadLetters(target.group, bootstrap=cluster.bootstrap)
    wait_until(lambda: letters.count() == 1)
    (letter,) = letters.read()
    assert letter.reason == "HTTP 422, after 1 attempts"

    receiver.answers["/hook"] = 204
    assert letters.redrive().redriven == 1
    wait_until(lambda: len(receiver.received()) == 2)
    first, second = receiver.received()
    assert (first.id, first.body) == (second.id, second.body)
    write(topic, b"last")
    wait_until(lambda: b"last" in receiver.bodies("/other"))
    assert receiver.bodies("/other") == [b'{"amount": 1}', b"last"]


def test_record_that_the_filter_can_not_be_evaluated_for_is_a_dead_letter(
    deliver: Deliver,
    receiver: Receiver,
    catalog: Catalog[Target],
    cluster: Cluster,
    topic: str,
    write: Write,
) -> None:
    target = target_of(topic, receiver.url(), filter="amount > 100")
    catalog.add(target)
    write(topic, b"no JSON", b'{"amount": 101}')
    deliver()
    wait_until(lambda: receiver.bodies() == [b'{"amount": 101}'])
    wait_until(lambda: committed(cluster, target).get(0) == 2)
    (letter,) = DeadLetters(target.group, bootstrap=cluster.bootstrap).read()
    assert letter.value == b"no JSON"
    assert "not a JSON object" in letter.reason


def test_stop_waits_for_the_answers_and_commits_them(
    deliver: Deliver,
    receiver: Receiver,
    catalog: Catalog[Target],
    cluster: Cluster,
    tmp_path: Path,
    topic: str,
    write: Write,
) -> None:
    async def slow(_request: web.Request, _body: bytes) -> web.StreamResponse:
        await asyncio.sleep(0.5)
        return web.Response(status=204)

    receiver.answers["/hook"] = slow
    target = target_of(topic, receiver.url(), parallel=4)
    catalog.add(target)
    write(topic, *(b"%d" % number for number in range(20)))
    running = deliver()
    wait_until(lambda: len(receiver.received()) >= 1)
    running.stop()
    assert committed(cluster, target)[0] == len(receiver.received()) < 20
    assert folder_of(tmp_path, target).status().state is TargetState.STOPPED
