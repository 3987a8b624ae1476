"""Options mean the same for all transports of direct messaging."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from headrace.cli.edge import feed_options, multicast, nng, zeromq

PUBLISHERS = [multicast.publish_feed, zeromq.publish_messages, nng.publish_messages]
RECEIVERS = [multicast.receive_feed, zeromq.subscribe, nng.subscribe]


def declared(command: Callable[..., None]) -> dict[str, Any]:
    return {
        name: each.annotation for name, each in inspect.signature(command, eval_str=True).parameters.items()
    }


@pytest.mark.parametrize("command", PUBLISHERS, ids=lambda each: each.__module__)
def test_every_publisher_takes_the_shared_options(command: Callable[..., None]) -> None:
    found = declared(command)
    assert found["topic"] == feed_options.SentTopic
    assert found["from_beginning"] == feed_options.FromBeginning
    assert found["group_id"] == feed_options.Group
    assert found["heartbeat"] == feed_options.Heartbeat
    assert found["plain"] == feed_options.PlainOut


@pytest.mark.parametrize("command", RECEIVERS, ids=lambda each: each.__module__)
def test_every_receiver_takes_the_shared_options(command: Callable[..., None]) -> None:
    found = declared(command)
    assert found["interval"] == feed_options.Interval
    assert found["loss_topic"] == feed_options.LossTopic
    assert found["recover_topic"] == feed_options.RecoverTopic
    assert found["recover_from"] == feed_options.RecoverFrom
    assert found["plain"] == feed_options.PlainIn
