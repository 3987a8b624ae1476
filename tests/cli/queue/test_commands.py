"""`headrace queue`: what there is to do, who does it, and dead letters."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer

from headrace.queue import Queue
from tests.cli.conftest import Headrace
from tests.cli.typed_json import json_problems
from tests.compatibility.brokers import BrokerUnderTest

TIMEOUT_S = 60.0


@pytest.fixture
def half_done(bootstrap: str, producer: Producer, topic: str) -> str:
    """A group of the topic's name that has accepted one of three messages and rejected another."""
    for value in ("good", "bad", "later"):
        producer.produce(topic, value, "k", partition=0, headers={"colour": "red"})
    assert producer.flush(60) == 0
    with Queue(topic, group=topic, bootstrap=bootstrap) as queue:
        for _ in range(3):
            message = queue.get(timeout=TIMEOUT_S)
            assert message is not None
            if message.value == b"good":
                message.accept()
            if message.value == b"bad":
                message.reject("no such mailbox")
    return topic


def wait_for_letter(headrace: Headrace, group: str) -> None:
    while json.loads(headrace("queue", "describe", group, "--format", "json").out)["dead"] < 1:
        pass


def test_list_shows_groups_and_what_is_left(headrace: Headrace, half_done: str) -> None:
    listed = json.loads(headrace("queue", "list", "--format", "json").out)
    (mine,) = [each for each in listed if each["group"] == half_done]
    assert mine == {"group": half_done, "state": "empty", "members": 0, "not_done": 1, "topics": [half_done]}
    assert half_done in headrace("queue", "list").out


def test_describe_counts_what_waits_what_is_dead_and_how_old_it_is(
    headrace: Headrace, half_done: str
) -> None:
    wait_for_letter(headrace, half_done)
    described = json.loads(headrace("queue", "describe", half_done, "--format", "json").out)
    assert (described["waiting"], described["dead"]) == (1, 1)
    assert described["oldest_age_s"] >= 0
    assert described["dead_letter_topic"] == f"dlq.{half_done}"
    assert "no such mailbox" in headrace("queue", "dead", "list", half_done).out


def test_describe_shows_members_and_on_headrace_what_each_holds(
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


def test_group_that_is_not_there_is_said_so(headrace: Headrace, name: str) -> None:
    assert f"there is no queue group {name}" in headrace("queue", "describe", name, code=1).err


def test_settings_of_a_group_are_shown_changed_and_taken_back(headrace: Headrace, name: str) -> None:
    setting = "share.delivery.count.limit"
    headrace("queue", "alter", name, "--config", f"{setting}=3")
    assert [setting, "3", "set"] in [line.split() for line in headrace("queue", "alter", name).lines]
    headrace("queue", "alter", name, "--delete-config", setting)
    assert [setting, "5", "default"] in [line.split() for line in headrace("queue", "alter", name).lines]


def test_setting_that_does_not_exist_is_refused(headrace: Headrace, name: str) -> None:
    assert "no.such" in headrace("queue", "alter", name, "--config", "no.such=1", code=1).err


def test_dead_letters_are_listed_shown_redriven_and_purged(headrace: Headrace, half_done: str) -> None:
    wait_for_letter(headrace, half_done)
    (letter,) = json.loads(headrace("queue", "dead", "list", half_done, "--format", "json").out)
    assert letter["original"] == {"topic": half_done, "partition": 0, "offset": 1}
    assert (letter["value"], letter["reason"], letter["delivery_count"]) == ("bad", "no such mailbox", 1)
    shown = headrace("queue", "dead", "show", half_done, f"{letter['partition']}:{letter['offset']}").out
    assert "no such mailbox" in shown
    assert "header colour: red" in shown
    assert shown.endswith("\nbad\n")

    assert "0 letters, 1 left" in headrace("queue", "dead", "redrive", half_done, "--match", "nothing").out
    assert "1 letters would be" in headrace("queue", "dead", "redrive", half_done, "--dry-run").out
    assert "redrove 1 letters" in headrace("queue", "dead", "redrive", half_done, "--match", "mailbox").out
    assert "no dead letters" in headrace("queue", "dead", "list", half_done).out
    assert headrace("consume", half_done, "--partition", "0", "--last", "1").out == "bad\n"
    assert "--yes" in headrace("queue", "dead", "purge", half_done, code=1).err
    assert "records deleted" in headrace("queue", "dead", "purge", half_done, "--yes").out


def test_letter_that_is_not_there_is_said_so(headrace: Headrace, half_done: str) -> None:
    wait_for_letter(headrace, half_done)
    assert "no letter 0:99" in headrace("queue", "dead", "show", half_done, "0:99", code=1).err
    assert "PARTITION:OFFSET" in headrace("queue", "dead", "show", half_done, "x", code=1).err


def test_empty_group_can_be_deleted_and_begins_anew(headrace: Headrace, half_done: str) -> None:
    assert "--yes" in headrace("queue", "delete", half_done, code=1).err
    headrace("queue", "delete", half_done, "--yes")
    assert "there is no queue group" in headrace("queue", "describe", half_done, code=1).err


def test_json_of_queues_and_dead_letters_is_as_declared(headrace: Headrace, half_done: str) -> None:
    wait_for_letter(headrace, half_done)

    def shown(*command: str) -> str:
        return headrace("queue", *command, "--format", "json").out

    assert json_problems("queue list", shown("list")) == []
    assert json_problems("queue describe", shown("describe", half_done)) == []
    letters = shown("dead", "list", half_done)
    assert json_problems("queue dead list", letters) == []
    place = "{partition}:{offset}".format(**json.loads(letters)[0])
    assert json_problems("queue dead show", shown("dead", "show", half_done, place)) == []
    for option in ("--dry-run", "--match=mailbox"):
        assert json_problems("queue dead redrive", shown("dead", "redrive", half_done, option)) == []
    assert json_problems("queue dead purge", shown("dead", "purge", half_done, "--yes")) == []
    assert json_problems("queue delete", shown("delete", half_done, "--yes")) == []


def test_mistyped_group_is_refused_with_the_one_that_was_meant(headrace: Headrace, half_done: str) -> None:
    refused = headrace("queue", "describe", half_done.replace("cli", "cil"), code=1)
    assert f"did you mean {half_done}?" in refused.err


def test_mistyped_setting_is_refused_with_the_one_that_was_meant(headrace: Headrace, name: str) -> None:
    refused = headrace("queue", "alter", name, "--config", "share.delivery.count.limits=3", code=1)
    assert "did you mean share.delivery.count.limit?" in refused.err

    headrace("queue", "alter", name, "--config", "share.record.lock.duration.ms=20s")
    configs = json.loads(headrace("queue", "alter", name, "--format", "json").out)["configs"]
    assert configs["share.record.lock.duration.ms"] == {"value": "20000", "is_default": False}
    assert configs["share.delivery.count.limit"]["is_default"]
