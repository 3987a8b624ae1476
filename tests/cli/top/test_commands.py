"""The options of `headrace top`, on a real broker."""

from __future__ import annotations

import json

from tests.cli.conftest import Headrace


def test_internal_topics_and_groups_are_shown_only_with_internal(
    headrace: Headrace, numbers: str, name: str
) -> None:
    internal = f"headrace-late.{name}"
    headrace("group", "seek", internal, "--topic", numbers, "--to-latest")

    plain = json.loads(headrace("top", "--count", "1", "--format", "json").out)
    everything = json.loads(headrace("top", "--count", "1", "--format", "json", "--internal").out)

    assert not [each for each in plain["topics"] if each["topic"].startswith("__")]
    assert internal not in [each["group"] for each in plain["groups"]]
    assert "__consumer_offsets" in [each["topic"] for each in everything["topics"]]
    assert internal in [each["group"] for each in everything["groups"]]
