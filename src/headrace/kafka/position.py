"""A position in several partitions: the next offset of each, as one value.

Views say by it how far they are, and the HTTP gateway where a reader continues. The token of a position is what a
client passes on: "at least as new as my write", "from where I was".
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.kafka.cluster import Cluster


class BadPosition(HeadraceError):
    """A text that is not the token of a position."""


class Position(Struct, frozen=True):
    """`offsets[topic][partition]` is the next offset: everything before it was read."""

    offsets: Mapping[str, Mapping[int, int]]

    @classmethod
    def after(cls, records: Iterable[Any]) -> Position:
        """After these acknowledged records: messages of confluent-kafka, as delivery reports have them."""
        return cls.merged({record.topic(): {record.partition(): record.offset() + 1}} for record in records)

    @classmethod
    def merged(cls, offsets: Iterable[Mapping[str, Mapping[int, int]]]) -> Position:
        """The greatest next offset of each partition."""
        found: dict[str, dict[int, int]] = {}
        for each in offsets:
            for topic, partitions in each.items():
                of_topic = found.setdefault(topic, {})
                for partition, offset in partitions.items():
                    of_topic[partition] = max(offset, of_topic.get(partition, 0))
        return cls(found)

    @classmethod
    def at_end(cls, cluster: Cluster, topics: Collection[str]) -> Position:
        """The end of these topics now: after every committed record."""
        from confluent_kafka import IsolationLevel
        from confluent_kafka.admin import OffsetSpec

        partitions = cluster.require_topics(topics)
        ends = cluster.offsets(
            [each for of_topic in partitions.values() for each in of_topic],
            OffsetSpec.latest(),
            isolation=IsolationLevel.READ_COMMITTED,
        )
        return cls.merged({each.topic: {each.number: offset}} for each, offset in ends.items())

    @classmethod
    def from_fence(cls, ends: Iterable[str]) -> Position:
        """From the end offsets of a fence, as in Spark's offset log. A source that is no topic is skipped."""
        found = []
        for text in ends:
            try:
                found.append(msgspec.json.decode(text, type=dict[str, dict[int, int]]))
            except msgspec.DecodeError:
                continue
        return cls.merged(found)

    def includes(self, other: Position) -> bool:
        """Whether everything before the other position is before this one, in the topics that this one has."""
        return all(
            self.offsets[topic].get(partition, 0) >= offset
            for topic, partitions in other.offsets.items()
            if topic in self.offsets
            for partition, offset in partitions.items()
        )

    def behind(self, other: Position) -> dict[str, int]:
        """By `topic-partition`, how many offsets this one lacks of the other."""
        missing = {
            f"{topic}-{partition}": offset - self.offsets.get(topic, {}).get(partition, 0)
            for topic, partitions in other.offsets.items()
            for partition, offset in partitions.items()
        }
        return {name: count for name, count in missing.items() if count > 0}

    def in_topics(self, topics: Collection[str]) -> Position:
        """Only these topics."""
        return Position({topic: each for topic, each in self.offsets.items() if topic in topics})

    def token(self) -> str:
        """The same for equal positions, and safe in a URL."""
        in_order = {topic: dict(sorted(each.items())) for topic, each in sorted(self.offsets.items())}
        return base64.urlsafe_b64encode(msgspec.json.encode(in_order)).decode().rstrip("=")

    @classmethod
    def from_token(cls, token: str) -> Position:
        try:
            text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
            return cls(msgspec.json.decode(text, type=dict[str, dict[int, int]]))
        except (ValueError, msgspec.DecodeError) as error:
            raise BadPosition(
                f"{token[:80]!r} is not a position", hint="pass the token of a write or of a read unchanged"
            ) from error
