"""`headrace queue` on a real broker."""

from __future__ import annotations

import json
import threading

from headrace.queue import Queue
from tests.cli.conftest import Headrace
from tests.cli.queue.conftest import TIMEOUT_S, wait_for_letter
from tests.cli.typed_json import json_problems
from tests.compatibility.brokers import BrokerUnderTest


def test_list_shows_groups_with_the_messages_that_are_not_done(headrace: Headrace, half_done: str) -> None:
    listed = json.loads(headrace("queue", "list", "--format", "json").out)
    (mine,) = [each for each in listed if each["group"] == half_done]
    assert mine == {"group": half_done, "state": "empty", "members": 0, "not_done": 1, "topics": [half_done]}
    assert half_done in headrace("queue", "list").out


def test_describe_counts_waiting_and_dead_messages_and_the_oldest_age(
    headrace: Headrace, half_done: str
) -> None:
    wait_for_letter(headrace, half_done)
    described = json.loads(headrace("queue", "describe", half_done, "--format", "json").out)
    assert (described["waiting"], described["dead"]) == (1, 1)
    assert described["oldest_age_s"] >= 0
    assert described["dead_letter_topic"] == f"dlq.{half_done}"
    assert "no such mailbox" in headrace("queue", "dead", "list", half_done).out


def test_describe_shows_members_and_on_headrace_the_messages_in_flight_of_each(
    headrace: Headrace, broker: BrokerUnderTest, bootstrap: str, half_done: str
) -> None:
    with Queue(half_done, group=half_done, bootstrap=bootstrap, config={"client.id": "me"}) as queue:
        message = queue.get(timeout=TIMEOUT_S)
        assert message is not None
        described = json.loads(headrace("queue", "describe", half_done, "--format", "json").out)
        shown = headrace("queue", "describe", half_done).out
    (member,) = described["members"]
    is_ours = broker.kind == "headrace"
    assert member["client"] == "me"
    assert member["in_flight"] == (1 if is_ours else None)
    assert described["in_flight"] == (1 if is_ours else None)
    assert described["redelivered"] == (1 if is_ours else None)
    assert "stable, 1 members" in shown


def test_request_prints_the_reply_or_the_reason(headrace: Headrace, bootstrap: str, half_done: str) -> None:
    late = headrace("queue", "request", half_done, "tea", "--timeout", "200ms", code=1)
    assert f"no reply from {half_done} within 0.2 s" in late.err
    assert "no worker of any group reads" in late.err

    # The group also gets the messages that the topic has already.
    queue = Queue(half_done, group=f"{half_done}-replies", bootstrap=bootstrap)
    worker = threading.Thread(target=queue.run, args=(lambda message: message.value.upper() + b"\x1b[31m",))
    worker.start()
    try:
        assert headrace("queue", "request", half_done, "tea").out == "TEA\\x1b[31m\n"
        shown = headrace("queue", "request", half_done, "tea", "--key", "k", "--format", "json").out
    finally:
        queue.stop()
        worker.join(TIMEOUT_S)
    assert json.loads(shown) == {"topic": half_done, "reply": "TEA\x1b[31m"}
    assert json_problems("queue request", shown) == []


def test_missing_group_is_an_error(headrace: Headrace, name: str) -> None:
    assert f"there is no queue group {name}" in headrace("queue", "describe", name, code=1).err


def test_settings_of_a_group_are_shown_changed_and_reset(headrace: Headrace, name: str) -> None:
    setting = "share.delivery.count.limit"
    headrace("queue", "alter", name, "--config", f"{setting}=3")
    assert [setting, "3", "set"] in [line.split() for line in headrace("queue", "alter", name).lines]
    headrace("queue", "alter", name, "--delete-config", setting)
    assert [setting, "5", "default"] in [line.split() for line in headrace("queue", "alter", name).lines]


def test_setting_that_does_not_exist_is_rejected(headrace: Headrace, name: str) -> None:
    assert "no.such" in headrace("queue", "alter", name, "--config", "no.such=1", code=1).err


def test_empty_group_can_be_deleted(headrace: Headrace, half_done: str) -> None:
    assert "--yes" in headrace("queue", "delete", half_done, code=1).err
    headrace("queue", "delete", half_done, "--yes")
    assert "there is no queue group" in headrace("queue", "describe", half_done, code=1).err


def test_json_of_queues_is_as_declared(headrace: Headrace, half_done: str) -> None:
    def shown(*command: str) -> str:
        return headrace("queue", *command, "--format", "json").out

    assert json_problems("queue list", shown("list")) == []
    assert json_problems("queue describe", shown("describe", half_done)) == []
    assert json_problems("queue delete", shown("delete", half_done, "--yes")) == []


def test_mistyped_group_is_rejected_with_the_nearest_name(headrace: Headrace, half_done: str) -> None:
    rejected = headrace("queue", "describe", half_done.replace("cli", "cil"), code=1)
    assert f"did you mean {half_done}?" in rejected.err


def test_mistyped_setting_is_rejected_with_the_nearest_name(headrace: Headrace, name: str) -> None:
    rejected = headrace("queue", "alter", name, "--config", "share.delivery.count.limits=3", code=1)
    assert "did you mean share.delivery.count.limit?" in rejected.err

    headrace("queue", "alter", name, "--config", "share.record.lock.duration.ms=20s")
    configs = json.loads(headrace("queue", "alter", name, "--format", "json").out)["configs"]
    assert configs["share.record.lock.duration.ms"] == {"value": "20000", "is_default": False}
    assert configs["share.delivery.count.limit"]["is_default"]
