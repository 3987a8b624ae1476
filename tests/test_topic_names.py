"""The names that a topic may have are the same for the broker, for sinks and for operators."""

from __future__ import annotations

import pytest

from headrace.operators import SideOutput
from headrace.operators.operator import BadOperator
from headrace.pipeline.errors import BadSink
from headrace.pipeline.sinks.topic import Topic
from headrace.topic_names import InvalidTopicName, check_topic_name


@pytest.mark.parametrize("name", ["a", "...", "Orders_2026.v1-late", "x" * 249])
def test_legal_name_is_accepted_everywhere(name: str) -> None:
    check_topic_name(name)
    assert SideOutput(name).topic == Topic(name).name == name


def test_topic_without_a_name_is_rejected() -> None:
    with pytest.raises(InvalidTopicName):
        check_topic_name("")
    with pytest.raises(BadSink, match="can't be called"):
        Topic("")


@pytest.mark.parametrize("name", [".", "..", "a b", "a/b", "ä", "a\n", "x" * 250])
def test_illegal_name_is_rejected_everywhere(name: str) -> None:
    with pytest.raises(InvalidTopicName):
        check_topic_name(name)
    with pytest.raises(BadOperator, match="not a valid topic name"):
        SideOutput(name)
    with pytest.raises(BadSink, match="can't be called"):
        Topic(name)
