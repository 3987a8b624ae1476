"""What a capture publishes from its outbox table: the table, the topics of its events, and who empties it."""

from __future__ import annotations

import re

from msgspec import Struct

from headrace.cdc.errors import BadCapture
from headrace.topic_names import InvalidTopicName, check_topic_name

TOPIC_PATTERN = "outbox.event.{aggregatetype}"
"""As Debezium names the topics of an outbox."""

REQUIRED = ("id", "aggregatetype", "aggregateid", "type", "payload")
"""The columns that an outbox table has, with Debezium's names."""

OPTIONAL = ("topic", "key", "headers", "timestamp")
"""The columns that it may have."""

ROUTES = ("aggregatetype", "aggregateid", "type")
"""The columns that may be part of a topic's name."""

PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


class Outbox(Struct, frozen=True, kw_only=True):
    """`table` has its schema before it, as the capture shows it: `public.outbox`."""

    table: str
    topic: str = TOPIC_PATTERN
    delete: bool = True
    """the runner deletes rows that the log has; if not, the program that inserts them does"""

    def __post_init__(self) -> None:
        for name in PLACEHOLDER.findall(self.topic):
            if name not in ROUTES:
                raise BadCapture(
                    f"{self.topic!r} cannot be the topic of an outbox: {{{name}}} is not known",
                    hint=f"use {', '.join(f'{{{each}}}' for each in ROUTES)}",
                )
        try:
            check_topic_name(PLACEHOLDER.sub("x", self.topic))
        except InvalidTopicName as error:
            raise BadCapture(
                f"{self.topic!r} cannot be the topic of an outbox",
                hint=f"such as {TOPIC_PATTERN}; {error.hint}",
            ) from error
