"""The definition of an outbox checks itself."""

from __future__ import annotations

import pytest

from headrace.cdc.errors import BadCapture
from headrace.cdc.outbox.definition import Outbox


def test_topic_is_the_one_of_debezium_unless_it_is_set() -> None:
    assert Outbox(table="outbox").topic == "outbox.event.{aggregatetype}"
    assert Outbox(table="outbox", topic="{type}-of-{aggregatetype}").topic == "{type}-of-{aggregatetype}"


@pytest.mark.parametrize(
    ("topic", "hint"),
    [
        ("{payload}", "{aggregatetype}"),
        ("no spaces {type}", "letters"),
        ("", "outbox.event"),
        ("a{b", "such as"),
    ],
)
def test_impossible_topic_is_rejected_with_the_remedy(topic: str, hint: str) -> None:
    with pytest.raises(BadCapture, match="cannot be the topic of an outbox") as rejected:
        Outbox(table="outbox", topic=topic)
    assert hint in rejected.value.hint
