"""What a sink asks a cluster before it writes: that the topic is there, what it takes, and to forget what it had."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from headrace.errors import HeadraceError

_BROKERS_DEFAULT = -1
_LOOK_AGAIN_S = 0.05


class TopicUnusable(HeadraceError):
    """A topic that can't be made, looked at or emptied."""


class TopicAdmin:
    """Asks one cluster."""

    def __init__(self, bootstrap: str, *, config: Mapping[str, Any], timeout_s: float) -> None:
        self._bootstrap = bootstrap
        self._timeout_s = timeout_s
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, **config})

    def ensure(self, topic: str, config: Mapping[str, str]) -> None:
        """Make the topic if it is not there, with as many partitions and replicas as the broker thinks right."""
        if topic in self._topics():
            return
        count = _BROKERS_DEFAULT
        wanted = NewTopic(topic, num_partitions=count, replication_factor=count, config=dict(config))
        made = self._admin.create_topics([wanted], request_timeout=self._timeout_s)[topic]
        try:
            made.result(self._timeout_s)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self._unusable(topic, "can't be made", error) from error

    def message_bytes_max(self, topic: str) -> int:
        """The topic's `max.message.bytes`.

        A topic that was made a moment ago is unknown to a broker until the controller's word has reached it.
        """
        deadline = time.monotonic() + self._timeout_s
        while True:
            resource = ConfigResource(ResourceType.TOPIC, topic)
            answer = self._admin.describe_configs([resource], request_timeout=self._timeout_s)[resource]
            try:
                return int(
                    self._answer(topic, "does not say what it takes", answer)["max.message.bytes"].value
                )
            except _NotThere:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_LOOK_AGAIN_S)

    def empty(self, topic: str) -> None:
        """Delete every record that is there now."""
        partitions = self._topics().get(topic)
        if partitions is None:
            return
        latest = {TopicPartition(topic, number): OffsetSpec.latest() for number in partitions.partitions}
        ends = []
        for place, answer in self._admin.list_offsets(latest, request_timeout=self._timeout_s).items():
            end = self._answer(topic, "can't be emptied", answer)
            ends.append(TopicPartition(topic, place.partition, end.offset))
        for answer in self._admin.delete_records(ends, request_timeout=self._timeout_s).values():
            self._answer(topic, "can't be emptied", answer)

    def forget_groups(self, writer: str) -> None:
        """Delete the groups that keep a writer's fence: its own name, and the names that begin with it and a colon."""
        listed = self._answer(writer, "can't be looked up", self._admin.list_consumer_groups())
        names = [each.group_id for each in listed.valid]
        ours = [name for name in names if name == writer or name.startswith(f"{writer}:")]
        if not ours:
            return
        deleted = self._admin.delete_consumer_groups(ours, request_timeout=self._timeout_s)
        for name, answer in deleted.items():
            with contextlib.suppress(_NotThere):
                self._answer(name, "can't be forgotten", answer)

    def _topics(self) -> Any:
        try:
            return self._admin.list_topics(timeout=self._timeout_s).topics
        except KafkaException as error:
            raise TopicUnusable(
                f"no broker at {self._bootstrap}: {error.args[0].str()}",
                hint="is it running? `headrace broker` starts one; `bootstrap` says where it is",
            ) from error

    def _answer(self, name: str, what: str, future: Future[Any]) -> Any:
        try:
            return future.result(self._timeout_s)
        except KafkaException as error:
            raise self._unusable(name, what, error) from error

    def _unusable(self, name: str, what: str, error: KafkaException) -> TopicUnusable:
        cause = error.args[0]
        kind = _NotThere if cause.code() in _NOT_THERE else TopicUnusable
        return kind(f"{name} {what}: {cause.str()}", hint=_HINTS.get(cause.code(), ""))


class _NotThere(TopicUnusable):
    """Forgotten already, or not heard of yet."""


_NOT_THERE = (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.UNKNOWN_TOPIC_OR_PART)

_HINTS = {
    KafkaError.POLICY_VIOLATION: "a compacted topic can't be emptied; delete it and let the job make it again",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "the job's user may not do that there",
}
