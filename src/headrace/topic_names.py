"""Valid topic names: Kafka's rule, for the broker, sinks and operators."""

from __future__ import annotations

import re

from headrace.errors import HeadraceError

TOPIC_NAME_CHARACTERS_MAX = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


class InvalidTopicName(HeadraceError):
    """A name that Kafka's rules do not allow."""


def check_topic_name(name: str) -> None:
    """Raise InvalidTopicName if the name is invalid."""
    if not name or name in (".", ".."):
        raise InvalidTopicName(f"{name!r} can't be a topic's name", hint="give it a name")
    if len(name) > TOPIC_NAME_CHARACTERS_MAX:
        raise InvalidTopicName(
            f"the topic name is {len(name)} characters long", hint=f"at most {TOPIC_NAME_CHARACTERS_MAX}"
        )
    if not _LEGAL.fullmatch(name):
        raise InvalidTopicName(
            f"{name!r} can't be a topic's name", hint="use ASCII letters, digits, '.', '_' and '-'"
        )
