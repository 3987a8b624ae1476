"""The settings of a share group: those that are set already are kept."""

from __future__ import annotations

from collections.abc import Callable

from headrace.kafka.cluster import Cluster
from headrace.queue.group_settings import (
    DELIVERY_LIMIT,
    LOCK_DURATION,
    GroupSettings,
    ensure_settings,
    read_settings,
)
from tests.queue.conftest import TIMEOUT_S, OpenQueue, Send


def test_start_of_a_group_that_has_the_setting_is_kept(
    open_queue: OpenQueue, set_group: Callable[..., None], topic: str, group: str, send: Send
) -> None:
    set_group(group, share_auto_offset_reset="latest")
    send(topic, "before")
    with open_queue(topic, group=group) as queue:
        while (message := queue.get(timeout=1)) is None:
            send(topic, "after")  # the group starts at the end of the topic
        assert message.value == b"after"


def test_unset_settings_are_set_and_set_ones_are_kept(
    bootstrap: str, set_group: Callable[..., None], group: str
) -> None:
    set_group(group, share_delivery_count_limit=3)
    cluster = Cluster(bootstrap, timeout_s=TIMEOUT_S)
    settings = ensure_settings(cluster, group, {DELIVERY_LIMIT: "7", LOCK_DURATION: "20000", "unknown": "1"})
    assert (settings.delivery_limit, settings.lock_s) == (3, 20.0)
    assert settings.given >= {DELIVERY_LIMIT, LOCK_DURATION}
    assert settings == read_settings(cluster, group)


def test_rejected_setting_leaves_the_group_as_it_was(bootstrap: str, group: str) -> None:
    cluster = Cluster(bootstrap, timeout_s=TIMEOUT_S)
    before = read_settings(cluster, group)
    assert (
        ensure_settings(cluster, group, {LOCK_DURATION: "a while"}) == before == read_settings(cluster, group)
    )


def test_broker_without_the_configs_of_headrace_has_kafkas_defaults() -> None:
    settings = GroupSettings(values={}, given=frozenset())
    assert (settings.lock_s, settings.delivery_limit, settings.dead_letter_topic) == (30.0, 5, "")
    assert not settings.has_dead_letters
    assert not settings.takes_reasons
