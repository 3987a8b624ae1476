"""A Kafka cluster as the commands see it: topics, partitions, offsets, and errors with a hint.

Everything here works on Apache Kafka as well. Nothing here prints.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec, TopicMetadata

from headrace.bootstrap import ClientSettings, parse_address, require_broker
from headrace.errors import HeadraceError
from headrace.names import did_you_mean

T = TypeVar("T")

_HINTS: Mapping[int, str] = {
    KafkaError.TOPIC_ALREADY_EXISTS: "--if-not-exists makes it a success; `headrace topic alter` changes it",
    KafkaError.TOPIC_EXCEPTION: "a topic's name has 1 to 249 letters, digits, '.', '_' and '-'",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "`headrace topic list` shows what there is",
    KafkaError.INVALID_PARTITIONS: "partitions can be added, never taken away",
    KafkaError.INVALID_CONFIG: "`headrace topic describe NAME --all-configs` shows names and values",
    KafkaError.NON_EMPTY_GROUP: "stop its consumers first; `headrace group describe NAME` shows them",
    KafkaError.GROUP_ID_NOT_FOUND: "`headrace group list` shows what there is",
    KafkaError.KAFKA_STORAGE_ERROR: "the broker's disk is full or failing; its log names the file",
    KafkaError.MSG_SIZE_TOO_LARGE: "`headrace topic alter NAME --config max.message.bytes=N` raises it",
}


# A topic that is created by being written to is there within a second; one that is not will not come.
TOPIC_APPEARS_S_MAX = 3.0
# A cluster's partition is led a moment after its topic was created, or after its leader has gone.
LEADER_APPEARS_S_MAX = 5.0
_NO_LEADER_YET = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
_NOT_YET = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE, KafkaError._UNKNOWN_TOPIC)


# The fences of jobs, and how far dead letters were put back. The group of a job itself, headrace-job-NAME, has a lag
# that people want to see.
_INTERNAL_GROUP = re.compile(r"^__|^headrace-(?!job-)|\.redrive\.")


class CommandFailed(HeadraceError):
    """The broker refused, or did not answer; `code` is the protocol's, where there was an answer."""

    code: int | None = None


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


class Cluster:
    """A connection for asking and changing; producers and consumers make their own from `client_config`."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self.timeout_s = settings.timeout_s
        require_broker(settings.bootstrap)
        self.admin = AdminClient(self.client_config())

    def client_config(self, **more: Any) -> dict[str, Any]:
        """Configuration of a client of this cluster; `session_timeout_ms=1` becomes `session.timeout.ms`."""
        return {
            "bootstrap.servers": self.settings.bootstrap,
            "client.id": "headrace-cli",
            # Its own log lines would stand among the command's output; what matters comes back as errors.
            "log_level": 0,
            "error_cb": lambda _error: None,
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def answer(self, future: Future[T], doing: str) -> T:
        """The result of an admin call, or its error as one that a person can act on."""
        try:
            return future.result(timeout=self.timeout_s)
        except KafkaException as error:
            raise failure(error.args[0], doing) from error
        except TimeoutError as error:
            raise CommandFailed(
                f"{doing}: no answer within {self.timeout_s} s", hint="is the broker overloaded?"
            ) from error

    def topics(self) -> dict[str, TopicMetadata]:
        try:
            # All of them: to ask for one by name may create it.
            return dict(self.admin.list_topics(timeout=self.timeout_s).topics)
        except KafkaException as error:
            raise failure(error.args[0], f"asking {self.settings.bootstrap} for its topics") from error

    def brokers(self) -> list[tuple[str, int]]:
        """Where they say that they are; the first address that was given, if nobody says anything."""
        try:
            listed = self.admin.list_topics(timeout=self.timeout_s).brokers.values()
        except KafkaException as error:
            raise failure(error.args[0], f"asking {self.settings.bootstrap} for its brokers") from error
        found = [(str(broker.host), broker.port) for broker in listed]
        return found or [parse_address(self.settings.bootstrap.split(",")[0])]

    def partitions(self, topic: str) -> list[Partition]:
        """The partitions of a topic that exists."""
        topics = self.topics()
        if topic not in topics:
            raise _no_topic(topic, topics)
        return partitions_in(topics[topic], topic)

    def create_by_use(self, topic: str) -> None:
        """Have the broker create a topic as it does for any client that writes to it; an error where it does not."""
        deadline_s = time.monotonic() + TOPIC_APPEARS_S_MAX
        while (error := self._ask_for(topic)) is not None:
            if error.code() not in _NOT_YET:
                raise failure(error, f"creating topic {topic}")
            if time.monotonic() > deadline_s:
                raise _no_topic(topic, self.topics())
            time.sleep(0.1)

    def _ask_for(self, topic: str) -> KafkaError | None:
        """The broker's answer to a client that names a topic; where topics are created by use, this creates it."""
        try:
            return self.admin.list_topics(topic, timeout=self.timeout_s).topics[topic].error
        except KafkaException as error:
            raise failure(error.args[0], f"asking for topic {topic}") from error

    def offsets(self, partitions: Iterable[Partition], spec: OffsetSpec) -> dict[Partition, int]:
        """One offset of each partition: earliest, latest, or the first at or after a time (-1: none)."""
        wanted = {TopicPartition(each.topic, each.number): spec for each in partitions}
        deadline_s = time.monotonic() + LEADER_APPEARS_S_MAX
        while wanted:
            try:
                return self._offsets(wanted)
            except CommandFailed as error:
                if error.code not in _NO_LEADER_YET or time.monotonic() > deadline_s:
                    raise
                time.sleep(0.2)
        return {}

    def _offsets(self, wanted: dict[TopicPartition, OffsetSpec]) -> dict[Partition, int]:
        futures = self.admin.list_offsets(wanted, request_timeout=self.timeout_s)
        return {
            Partition(each.topic, each.partition): self.answer(
                future, f"asking for offsets of {each.topic}"
            ).offset
            for each, future in futures.items()
        }

    def earliest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return self.offsets(partitions, OffsetSpec.earliest())

    def latest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return self.offsets(partitions, OffsetSpec.latest())

    def at_time(self, partitions: Sequence[Partition], timestamp_ms: int) -> dict[Partition, int]:
        """The first offset at or after the time; the end where there is none."""
        ends = self.latest(partitions)
        found = self.offsets(partitions, OffsetSpec.for_timestamp(timestamp_ms))
        return {each: ends[each] if found[each] < 0 else found[each] for each in partitions}

    def groups(self, *, internal: bool = False) -> list[tuple[str, str]]:
        """Consumer groups and their states; those that Headrace keeps its own positions in only if asked for."""
        answer = self.answer(
            self.admin.list_consumer_groups(request_timeout=self.timeout_s), "listing groups"
        )
        return sorted(
            (each.group_id, each.state.name.lower())
            for each in answer.valid
            if internal or not _INTERNAL_GROUP.search(each.group_id)
        )

    def committed(self, group: str) -> dict[Partition, int]:
        """The committed offsets of a group; empty if there is no such group."""
        return self.committed_of([group])[group]

    def committed_of(self, groups: Iterable[str]) -> dict[str, dict[Partition, int]]:
        """Those of several groups, all asked for before the first answer is awaited."""
        futures = {
            group: self.admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group)], request_timeout=self.timeout_s
            )[group]
            for group in groups
        }
        answers = {
            group: self.answer(future, f"asking for the offsets of group {group}").topic_partitions or []
            for group, future in futures.items()
        }
        return {
            group: {Partition(each.topic, each.partition): each.offset for each in listed if each.offset >= 0}
            for group, listed in answers.items()
        }


def _no_topic(topic: str, topics: Iterable[str]) -> CommandFailed:
    near = did_you_mean(topic, topics)
    return CommandFailed(
        f"there is no topic {topic}", hint=near or f"`headrace topic create {topic}` makes it"
    )


def partitions_in(metadata: TopicMetadata, topic: str) -> list[Partition]:
    return [Partition(topic, number) for number in sorted(metadata.partitions)]


def failure(error: KafkaError, doing: str) -> CommandFailed:
    """What the library or the broker said, with the next thing to try where we know it."""
    hint = _HINTS.get(error.code(), "")
    if error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT):
        hint = "is the broker running, and is --bootstrap its address?"
    failed = CommandFailed(f"{doing}: {error.str()}", hint=hint)
    failed.code = error.code()
    return failed
