"""Requests to answers in front of a real broker: each event once, and nothing acknowledged that is not written."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from headrace.edges.overload import Intake
from headrace.edges.settings import EdgeSettings
from headrace.kafka.cluster import Cluster
from headrace.webhooks.errors import DamagedDefinition
from headrace.webhooks.incoming import answers
from headrace.webhooks.incoming.answers import Answer
from headrace.webhooks.incoming.reception import Reception
from headrace.webhooks.incoming.request import WebhookRequest
from headrace.webhooks.incoming.source import Kind, Source
from headrace.webhooks.secrets import Secret, rotated
from tests.webhooks.conftest import events_in
from tests.webhooks.incoming.receiving import NOWHERE, clock_now, received, stored
from tests.webhooks.incoming.sending import SIGNED_KINDS, changed, signed, source


async def answer_to(reception: Reception, request: WebhookRequest, name: str = "sample") -> Answer:
    found = reception.find(name)
    assert found is not None
    return await reception.receive(found, request)


def answers_to(data_dir: Path, cluster: Cluster, *requests: WebhookRequest, **options: Any) -> list[Answer]:
    """One after the other, in one run."""

    async def use(reception: Reception) -> list[Answer]:
        return [await answer_to(reception, each) for each in requests]

    return received(data_dir, cluster, use, **options)


def now_signed(by: Source, **options: Any) -> WebhookRequest:
    return signed(by, now_ms=clock_now().now_ms(), **options)


@pytest.mark.parametrize("kind", SIGNED_KINDS)
def test_signed_request_is_one_event_however_often_it_is_sent(
    kind: Kind, tmp_path: Path, cluster: Cluster, topic: str
) -> None:
    by = stored(tmp_path, source(kind, topic=topic))
    request = now_signed(by, body=b'{"id": "evt_1"}')
    assert answers_to(tmp_path, cluster, request, request) == [answers.ACCEPTED, answers.DUPLICATE]
    assert [value for value, _headers in events_in(cluster, topic)] == [b'{"id": "evt_1"}']


@pytest.mark.parametrize("kind", SIGNED_KINDS)
def test_request_is_known_after_a_restart(kind: Kind, tmp_path: Path, cluster: Cluster, topic: str) -> None:
    by = stored(tmp_path, source(kind, topic=topic))
    requests = [now_signed(by, message_id=f"m{n}", body=b'{"id": "evt_%d"}' % n) for n in range(20)]
    assert set(answers_to(tmp_path, cluster, *requests)) == {answers.ACCEPTED}
    again = answers_to(tmp_path, cluster, *requests)
    assert set(again) == {answers.DUPLICATE}
    assert len(events_in(cluster, topic)) == 20


def test_requests_with_one_id_at_the_same_moment_are_one_event(
    tmp_path: Path, cluster: Cluster, topic: str
) -> None:
    by = stored(tmp_path, source(topic=topic))
    request = now_signed(by)

    async def all_at_once(reception: Reception) -> list[Answer]:
        return list(await asyncio.gather(*(answer_to(reception, request) for _ in range(50))))

    found = received(tmp_path, cluster, all_at_once)
    assert sorted(each.text for each in found) == ["accepted"] + ["accepted before"] * 49
    assert len(events_in(cluster, topic)) == 1


def test_replayed_github_delivery_under_a_new_id_is_no_event(
    tmp_path: Path, cluster: Cluster, topic: str
) -> None:
    by = stored(tmp_path, source("github", topic=topic))
    first = now_signed(by, message_id="a", body=b'{"n": 1}')
    forged = changed(first, x_github_delivery=b"b")
    assert answers_to(tmp_path, cluster, first, forged)[1] is answers.DUPLICATE
    assert answers_to(tmp_path, cluster, forged) == [answers.DUPLICATE]
    assert len(events_in(cluster, topic)) == 1


def test_ids_of_one_source_do_not_hide_those_of_another(tmp_path: Path, cluster: Cluster, topic: str) -> None:
    for name in ("one", "two"):
        stored(tmp_path, source(topic=topic, name=name))

    async def both(reception: Reception) -> list[Answer]:
        request = now_signed(source(topic=topic))
        return [await answer_to(reception, request, name) for name in ("one", "two", "two")]

    expected = [answers.ACCEPTED, answers.ACCEPTED, answers.DUPLICATE]
    assert received(tmp_path, cluster, both) == expected
    assert received(tmp_path, cluster, both) == [answers.DUPLICATE] * 3


def test_wrong_signature_is_counted_and_nothing_is_stored(
    tmp_path: Path, cluster: Cluster, topic: str
) -> None:
    by = stored(tmp_path, source(topic=topic))
    request = now_signed(by)

    async def use(reception: Reception) -> dict[str, int]:
        for bad in (
            changed(request, body=b"other"),
            changed(request, webhook_signature=None),
            signed(by, now_ms=clock_now().now_ms() - 400_000),
            signed(by, now_ms=clock_now().now_ms() + 400_000),
        ):
            assert await answer_to(reception, bad) is answers.NOT_ACCEPTED
        assert reception.find("sampel") is None
        return {**reception.counters.count("sample"), **reception.counters.count("")}

    counted = received(tmp_path, cluster, use)
    assert counted == {"mismatch": 1, "missing": 1, "expired": 1, "future": 1, "unknown name": 1}
    assert events_in(cluster, topic) == []
    assert events_in(cluster, f"dlq.{topic}") == []


def test_ping_of_github_is_answered_and_no_event(tmp_path: Path, cluster: Cluster, topic: str) -> None:
    by = stored(tmp_path, source("github", topic=topic, key_field="repository.id"))
    ping = changed(now_signed(by, body=b'{"zen": "x"}'), x_github_event=b"ping")
    forged = changed(ping, body=b"{}")
    assert answers_to(tmp_path, cluster, ping, forged) == [answers.PING, answers.NOT_ACCEPTED]
    assert events_in(cluster, topic) == []


def test_verified_request_without_its_key_is_one_dead_letter_that_ends_the_attempts(
    tmp_path: Path, cluster: Cluster, topic: str
) -> None:
    by = stored(tmp_path, source(topic=topic, key_field="user"))
    request = now_signed(by, body=b'{"no": "user"}')
    assert answers_to(tmp_path, cluster, request, request) == [answers.DEAD_LETTER, answers.DUPLICATE]
    assert answers_to(tmp_path, cluster, request) == [answers.DUPLICATE]
    ((value, headers),) = events_in(cluster, f"dlq.{topic}")
    assert value == b'{"no": "user"}'
    assert headers["__dlq.errors.message"] == b"the body has no text or number in the field user"
    assert events_in(cluster, topic) == []


def test_verified_request_without_an_id_is_a_dead_letter(
    tmp_path: Path, cluster: Cluster, topic: str
) -> None:
    by = stored(tmp_path, source("stripe", topic=topic))
    request = now_signed(by, body=b"[1, 2]")
    assert answers_to(tmp_path, cluster, request, request) == [answers.DEAD_LETTER, answers.DUPLICATE]
    assert answers_to(tmp_path, cluster, request) == [answers.DUPLICATE]
    assert len(events_in(cluster, f"dlq.{topic}")) == 1


def test_event_that_the_topic_does_not_take_is_one_dead_letter_and_is_taken_when_the_limit_is_raised(
    tmp_path: Path, cluster: Cluster, topic: str
) -> None:
    cluster.alter_configs("topic", topic, {"max.message.bytes": "10000"})
    by = stored(tmp_path, source(topic=topic))
    request = now_signed(by, body=b"x" * 50_000)

    async def use(reception: Reception) -> list[Answer]:
        first = [await answer_to(reception, request) for _ in range(3)]
        cluster.alter_configs("topic", topic, {"max.message.bytes": "1000000"})
        return [*first, await answer_to(reception, request)]

    too_large = answers.TOO_LARGE
    assert received(tmp_path, cluster, use) == [too_large, too_large, too_large, answers.ACCEPTED]
    ((value, headers),) = events_in(cluster, f"dlq.{topic}")
    assert value == b"x" * 50_000
    assert b"the topic takes 10,000" in headers["__dlq.errors.message"]
    assert answers_to(tmp_path, cluster, request) == [answers.DUPLICATE]


def test_dead_letter_of_a_repeated_request_does_not_hide_it_after_a_restart(
    tmp_path: Path, cluster: Cluster, topic: str
) -> None:
    cluster.alter_configs("topic", topic, {"max.message.bytes": "10000"})
    by = stored(tmp_path, source(topic=topic))
    request = now_signed(by, body=b"x" * 50_000)
    assert answers_to(tmp_path, cluster, request) == [answers.TOO_LARGE]
    cluster.alter_configs("topic", topic, {"max.message.bytes": "1000000"})
    assert answers_to(tmp_path, cluster, request) == [answers.ACCEPTED]


def test_event_that_the_broker_rejects_is_a_dead_letter_and_the_sender_tries_again(
    tmp_path: Path, cluster: Cluster, topic: str
) -> None:
    """A compacted topic takes no record without a key."""
    cluster.alter_configs("topic", topic, {"cleanup.policy": "compact"})
    by = stored(tmp_path, source(topic=topic))
    request = now_signed(by, body=b'{"user": "ada"}')
    assert answers_to(tmp_path, cluster, request, request) == [answers.UNAVAILABLE] * 2
    ((_value, headers),) = events_in(cluster, f"dlq.{topic}")
    assert headers["__dlq.errors.message"].startswith(b"the broker rejects it")
    stored(tmp_path, replace(by, key_field="user"))
    assert answers_to(tmp_path, cluster, request) == [answers.ACCEPTED]


def test_rate_counts_new_verified_requests_only(tmp_path: Path, cluster: Cluster, topic: str) -> None:
    by = stored(tmp_path, source(topic=topic, rate_per_s_max=1))
    clock = clock_now()

    async def use(reception: Reception) -> list[str]:
        forged = changed(now_signed(by), body=b"forged")
        for _ in range(20):
            await answer_to(reception, forged)
        first = [await answer_to(reception, now_signed(by, message_id=f"m{n}")) for n in (0, 0, 0, 0, 1, 2)]
        clock.advance_ms(1_000)
        last = await answer_to(reception, now_signed(by, message_id="m2"))
        return [each.text for each in (*first, last)]

    found = received(tmp_path, cluster, use, clock=clock)
    assert found == ["accepted", *["accepted before"] * 3, "accepted", "too many requests", "accepted"]


def test_definition_that_changes_is_used_without_a_restart(
    tmp_path: Path, cluster: Cluster, topic: str
) -> None:
    old = stored(tmp_path, source(topic=topic))
    new_secret = "whsec_b3RoZXIgc2VjcmV0IG9mIHNvbWVib2R5"

    async def use(reception: Reception) -> list[Answer]:
        first = now_signed(old, message_id="a")
        found = [await answer_to(reception, first)]
        now_ms = clock_now().now_ms()
        both = replace(old, secrets=rotated(old.secrets, new_secret, now_ms=now_ms, overlap_ms=60_000))
        stored(tmp_path, both)
        found += [await answer_to(reception, first)]
        found += [await answer_to(reception, now_signed(each, message_id="b")) for each in (old, both)]
        stored(tmp_path, replace(old, secrets=(Secret(text=new_secret),)))
        return [*found, await answer_to(reception, first)]

    assert received(tmp_path, cluster, use) == [
        answers.ACCEPTED,
        answers.DUPLICATE,
        answers.ACCEPTED,
        answers.DUPLICATE,
        answers.NOT_ACCEPTED,
    ]


def test_event_that_was_accepted_is_not_accepted_again_by_another_topic(
    tmp_path: Path, cluster: Cluster, topic: str
) -> None:
    by = stored(tmp_path, source(topic=topic))

    async def use(reception: Reception) -> list[Answer]:
        first = await answer_to(reception, now_signed(by))
        stored(tmp_path, replace(by, topic=f"{topic}-2"))
        return [
            first,
            await answer_to(reception, now_signed(by)),
            await answer_to(reception, now_signed(by, message_id="b")),
        ]

    assert received(tmp_path, cluster, use) == [answers.ACCEPTED, answers.DUPLICATE, answers.ACCEPTED]
    assert len(events_in(cluster, f"{topic}-2")) == 1


def test_removed_source_is_unknown_and_a_damaged_one_is_a_problem_for_people(
    tmp_path: Path, cluster: Cluster, topic: str
) -> None:
    stored(tmp_path, source(topic=topic))
    problems: list[str] = []

    async def use(reception: Reception) -> None:
        (tmp_path / "webhooks" / "in" / "sample.json").write_text("{")
        with pytest.raises(DamagedDefinition):
            reception.find("sample")
        (tmp_path / "webhooks" / "in" / "sample.json").unlink()
        assert reception.find("sample") is None

    received(tmp_path, cluster, use, on_problem=problems.append)
    assert len(problems) == 1
    assert "sample.json is damaged" in problems[0]


def test_request_is_not_accepted_while_the_broker_is_unavailable(tmp_path: Path) -> None:
    by = stored(tmp_path, source())
    problems: list[str] = []
    requests = [now_signed(by)] * 3
    found = answers_to(
        tmp_path, NOWHERE, *requests, answer_ms_max=5_000, stop_s=0, on_problem=problems.append
    )
    assert found == [answers.UNAVAILABLE] * 3
    assert len(problems) == 1, "each problem is reported once"
    assert problems[0].startswith("webhook in sample: ")


def test_buffered_requests_are_events_when_the_broker_is_back_each_once(
    tmp_path: Path, cluster: Cluster, topic: str
) -> None:
    by = stored(tmp_path, source(topic=topic))
    requests = [now_signed(by, message_id=f"m{n}") for n in range(5)]
    offline = answers_to(tmp_path, NOWHERE, requests[0], *requests, overload="buffer", stop_s=0)
    assert offline == [answers.BUFFERED, answers.DUPLICATE, *[answers.BUFFERED] * 4]
    # Another run knows what is on disk before it is in the topic.
    assert answers_to(tmp_path, NOWHERE, *requests, overload="buffer", stop_s=0) == [answers.DUPLICATE] * 5
    assert answers_to(tmp_path, cluster, *requests, overload="buffer") == [answers.DUPLICATE] * 5
    assert len(events_in(cluster, topic)) == 5
    assert answers_to(tmp_path, cluster, *requests, overload="buffer") == [answers.DUPLICATE] * 5
    assert len(events_in(cluster, topic)) == 5


def test_buffer_that_another_process_uses_is_a_problem_for_people(tmp_path: Path) -> None:
    by = stored(tmp_path, source())
    problems: list[str] = []

    async def use(reception: Reception) -> Answer:
        settings = EdgeSettings(data_dir=tmp_path, overload="buffer", stop_s=0)
        with Intake(NOWHERE.client_config(), settings, name="webhooks"):
            return await answer_to(reception, now_signed(by))

    answer = received(tmp_path, NOWHERE, use, overload="buffer", stop_s=0, on_problem=problems.append)
    assert answer is answers.UNAVAILABLE
    assert any("used by another process" in each for each in problems)


def test_body_of_kind_none_is_an_event_each_time(tmp_path: Path, cluster: Cluster, topic: str) -> None:
    by = stored(tmp_path, source("none", topic=topic))
    request = now_signed(by)
    assert answers_to(tmp_path, cluster, request, request) == [answers.ACCEPTED] * 2
    assert len(events_in(cluster, topic)) == 2


def test_process_without_webhooks_has_no_files(tmp_path: Path) -> None:
    async def use(reception: Reception) -> None:
        assert reception.find("anything") is None

    received(tmp_path / "data", NOWHERE, use, overload="buffer")
    assert not (tmp_path / "data").exists()
