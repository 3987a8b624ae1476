"""A Kafka cluster as its clients see it: topics, partitions, offsets, groups and configs.

Everything here works on Apache Kafka as well. Every error is a `RequestFailed` with a hint.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Literal, TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from msgspec import Struct

from headrace.kafka.errors import RequestFailed, no_broker, no_such_topic, request_failed
from headrace.kafka.retries import COORDINATOR_MOVES, TRANSIENT, retry
from headrace.kafka.settings import client_config, parse_address

T = TypeVar("T")

ResourceKind = Literal["topic", "group"]

BROKERS_DEFAULT = -1
"""As many partitions or replicas as the broker is set up for."""

TOPIC_APPEARS_S_MAX = 3.0
"""A topic that is created by being written to exists within a second; after this it will not."""

LEADER_APPEARS_S_MAX = 5.0
"""A partition has a leader a moment after its topic was created, or after its leader failed."""

_UNREACHABLE = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT)
_NOT_CREATED_YET = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError._UNKNOWN_TOPIC,
)
_STALE_METADATA = frozenset({KafkaError.FENCED_LEADER_EPOCH, KafkaError._NOENT})
"""The client knows an old leader epoch, or no leader ("No leaders found"), of before a restart of the broker."""
_RESOURCE_TYPES = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP}

# The fences of jobs, and the positions of redrives. The groups of a job itself, headrace-job-NAME, and of a webhook,
# headrace-webhook-NAME, have a lag that people want to see.
_INTERNAL_GROUP = re.compile(r"^__|^headrace-(?!job-|webhook-)|\.redrive\.")


class Partition(Struct, frozen=True, order=True):
    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


@contextlib.contextmanager
def requesting(doing: str) -> Iterator[None]:
    """Turn the client's errors into RequestFailed."""
    try:
        yield
    except KafkaException as error:
        raise request_failed(error.args[0], doing) from error
    except TimeoutError as error:
        raise RequestFailed(f"{doing}: no response in time", hint="is the broker overloaded?") from error


class Cluster:
    """Requests to one cluster. Nothing connects before the first of them."""

    def __init__(self, bootstrap: str, *, timeout_s: float, config: Mapping[str, Any] | None = None) -> None:
        self.bootstrap = bootstrap
        self.timeout_s = timeout_s
        self._config = config

    def client_config(self, **options: Any) -> dict[str, Any]:
        """The configuration of a producer or consumer of this cluster; `linger_ms=5` becomes `linger.ms`."""
        return client_config(self.bootstrap, self._config, **options)

    @functools.cached_property
    def _admin(self) -> AdminClient:
        return AdminClient(self.client_config())

    def _result(self, future: Future[T], doing: str) -> T:
        with requesting(doing):
            return future.result(self.timeout_s)

    # Topics

    def metadata(self) -> ClusterMetadata:
        """Brokers and all topics. A request for one topic by name may create it."""
        try:
            return self._admin.list_topics(timeout=self.timeout_s)
        except KafkaException as error:
            cause = error.args[0]
            if cause.code() in _UNREACHABLE:
                raise no_broker(self.bootstrap, f": {cause.str()}") from error
            raise request_failed(cause, f"listing the topics of {self.bootstrap}") from error

    def brokers(self) -> list[tuple[str, int]]:
        """The addresses that the brokers advertise; the first bootstrap address if they advertise none."""
        found = [(str(broker.host), broker.port) for broker in self.metadata().brokers.values()]
        return found or [parse_address(self.bootstrap.split(",")[0])]

    def topics(self) -> dict[str, list[Partition]]:
        return {
            name: [Partition(name, number) for number in sorted(topic.partitions)]
            for name, topic in self.metadata().topics.items()
        }

    def require_topics(
        self, names: Iterable[str], *, appear_s_max: float = 0.0
    ) -> dict[str, list[Partition]]:
        """The partitions of topics that must exist, at the latest after `appear_s_max`."""

        def find() -> dict[str, list[Partition]]:
            topics = self.topics()
            for name in names:
                if name not in topics:
                    raise no_such_topic(name, topics)
            return {name: topics[name] for name in names}

        return retry(find, timeout_s=appear_s_max, codes=(KafkaError.UNKNOWN_TOPIC_OR_PART,))

    def partitions(self, topic: str) -> list[Partition]:
        return self.require_topics([topic])[topic]

    def topic_id(self, topic: str) -> str:
        """Its identity: a topic that is deleted and created again has another one."""
        futures = self._admin.describe_topics(TopicCollection([topic]), request_timeout=self.timeout_s)
        return str(self._result(futures[topic], f"describing topic {topic}").topic_id)

    def internal_topics(self, names: Sequence[str]) -> set[str]:
        """Those of the topics that the brokers keep for themselves."""
        if not names:
            return set()
        futures = self._admin.describe_topics(TopicCollection([*names]), request_timeout=self.timeout_s)
        return {
            name
            for name, future in futures.items()
            if self._result(future, f"describing topic {name}").is_internal
        }

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = BROKERS_DEFAULT,
        replication_factor: int = BROKERS_DEFAULT,
        config: Mapping[str, str] | None = None,
        exist_ok: bool = False,
    ) -> bool:
        """Whether the topic was created; with `exist_ok`, a topic that exists is no error."""
        wanted = NewTopic(name, partitions, replication_factor, config=dict(config or {}))
        future = self._admin.create_topics([wanted], request_timeout=self.timeout_s)[name]
        try:
            self._result(future, f"creating topic {name}")
        except RequestFailed as error:
            if exist_ok and error.code == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            raise
        return True

    def create_by_use(self, topic: str) -> None:
        """Have the broker create a topic as it does for any client that writes to it; an error if it does not."""
        try:
            retry(
                lambda: self._request_metadata(topic), timeout_s=TOPIC_APPEARS_S_MAX, codes=_NOT_CREATED_YET
            )
        except RequestFailed as error:
            if error.code in _NOT_CREATED_YET:
                raise no_such_topic(topic, self.topics()) from error
            raise

    def _request_metadata(self, topic: str) -> None:
        """Request a topic by its name, as clients do; if the broker creates topics by use, this creates it."""
        with requesting(f"creating topic {topic}"):
            error = self._admin.list_topics(topic, timeout=self.timeout_s).topics[topic].error
            if error is not None:
                raise KafkaException(error)

    def add_partitions(self, topic: str, count: int) -> None:
        """Raise the number of partitions to `count`."""
        wanted = [NewPartitions(topic, count)]
        future = self._admin.create_partitions(wanted, request_timeout=self.timeout_s)[topic]
        self._result(future, f"adding partitions to {topic}")

    def delete_topics(self, names: Sequence[str]) -> None:
        futures = self._admin.delete_topics([*names], request_timeout=self.timeout_s)
        for name, future in futures.items():
            self._result(future, f"deleting topic {name}")

    # Offsets and records

    def offsets(
        self,
        partitions: Iterable[Partition],
        spec: OffsetSpec,
        *,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        retry_s: float = LEADER_APPEARS_S_MAX,
    ) -> dict[Partition, int]:
        """One offset of each partition: earliest, latest, or the first at or after a time (-1: none)."""
        wanted = {TopicPartition(each.topic, each.number): spec for each in partitions}

        def send() -> dict[Partition, int]:
            futures = self._admin.list_offsets(
                wanted, isolation_level=isolation, request_timeout=self.timeout_s
            )
            try:
                return {
                    _partition(each): self._result(future, f"reading the offsets of {each.topic}").offset
                    for each, future in futures.items()
                }
            except RequestFailed as error:
                if error.code in _STALE_METADATA:
                    self.metadata()  # the client would keep what it knows for minutes
                raise

        return retry(send, timeout_s=retry_s, codes=TRANSIENT | _STALE_METADATA) if wanted else {}

    def earliest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return self.offsets(partitions, OffsetSpec.earliest())

    def latest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return self.offsets(partitions, OffsetSpec.latest())

    def at_time(self, partitions: Sequence[Partition], timestamp_ms: int) -> dict[Partition, int]:
        """The first offset at or after the time; the end if there is none."""
        ends = self.latest(partitions)
        found = self.offsets(partitions, OffsetSpec.for_timestamp(timestamp_ms))
        return {each: ends[each] if found[each] < 0 else found[each] for each in partitions}

    def delete_records(self, before: Mapping[Partition, int]) -> None:
        """Delete the records of each partition before an offset."""
        if not before:
            return
        futures = self._admin.delete_records(_topic_partitions(before), request_timeout=self.timeout_s)
        for each, future in futures.items():
            self._result(future, f"deleting records of {each.topic}")

    # Groups

    def groups(self, *, internal: bool = False) -> list[tuple[str, str]]:
        """Consumer groups and their states; `internal` adds those that Headrace keeps its own positions in."""
        future = self._admin.list_consumer_groups(request_timeout=self.timeout_s)
        return sorted(
            (each.group_id, each.state.name.lower())
            for each in self._result(future, "listing groups").valid
            if internal or not _INTERNAL_GROUP.search(each.group_id)
        )

    def describe_group(self, name: str) -> Any | None:
        """None if there is no such group. Older brokers describe it as dead and empty instead."""
        future = self._admin.describe_consumer_groups([name], request_timeout=self.timeout_s)[name]
        try:
            return self._result(future, f"describing group {name}")
        except RequestFailed as error:
            if error.code == KafkaError.GROUP_ID_NOT_FOUND:
                return None
            raise

    def delete_groups(self, names: Sequence[str], *, missing_ok: bool = False) -> None:
        if not names:
            return
        futures = self._admin.delete_consumer_groups([*names], request_timeout=self.timeout_s)
        for name, future in futures.items():
            try:
                self._result(future, f"deleting group {name}")
            except RequestFailed as error:
                if not (missing_ok and error.code == KafkaError.GROUP_ID_NOT_FOUND):
                    raise

    def committed(self, group: str) -> dict[Partition, int]:
        """The committed offsets of a group; empty if there is no such group."""
        return self.committed_of([group])[group]

    def committed_of(self, groups: Iterable[str]) -> dict[str, dict[Partition, int]]:
        """Those of several groups: every request is sent before the first response is awaited."""
        futures = {
            group: self._admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group)], request_timeout=self.timeout_s
            )[group]
            for group in groups
        }
        return {
            group: {
                _partition(each): each.offset
                for each in self._result(future, f"reading the offsets of group {group}").topic_partitions
                or []
                if each.offset >= 0
            }
            for group, future in futures.items()
        }

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Set the committed offsets of a group that has no members."""

        def send() -> None:
            wanted = [ConsumerGroupTopicPartitions(group, _topic_partitions(offsets))]
            future = self._admin.alter_consumer_group_offsets(wanted, request_timeout=self.timeout_s)[group]
            for each in self._result(future, f"committing offsets of group {group}").topic_partitions or []:
                if each.error is not None:
                    raise request_failed(
                        each.error, f"committing an offset of {_partition(each)} of group {group}"
                    )

        retry(send, timeout_s=LEADER_APPEARS_S_MAX, codes=COORDINATOR_MOVES)

    # Configs

    def configs(self, kind: ResourceKind, name: str) -> dict[str, ConfigEntry]:
        resource = ConfigResource(_RESOURCE_TYPES[kind], name)
        (future,) = self._admin.describe_configs([resource], request_timeout=self.timeout_s).values()
        return self._result(future, f"reading the settings of {kind} {name}")

    def alter_configs(self, kind: ResourceKind, name: str, wanted: Mapping[str, str | None]) -> None:
        """Set some configs; None resets one to its default."""
        changes = [
            ConfigEntry(
                each,
                text,
                incremental_operation=AlterConfigOpType.DELETE if text is None else AlterConfigOpType.SET,
            )
            for each, text in wanted.items()
        ]
        resource = ConfigResource(_RESOURCE_TYPES[kind], name, incremental_configs=changes)
        (future,) = self._admin.incremental_alter_configs([resource], request_timeout=self.timeout_s).values()
        self._result(future, f"changing the settings of {kind} {name}")


def _partition(found: TopicPartition) -> Partition:
    return Partition(found.topic, found.partition)


def _topic_partitions(offsets: Mapping[Partition, int]) -> list[TopicPartition]:
    return [TopicPartition(each.topic, each.number, offset) for each, offset in offsets.items()]
