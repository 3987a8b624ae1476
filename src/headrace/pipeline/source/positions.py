"""Start and end positions of a source: as the user gives them, as Spark takes them, as the broker knows them.

A bounded source is pinned to offsets when it is created, so that a DataFrame has the same rows each time it is
read. Nothing of Spark is imported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal, get_args

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec

from headrace.kafka.cluster import Cluster, Partition
from headrace.kafka.errors import UNKNOWN_TOPIC, RequestFailed
from headrace.pipeline.errors import BadSource
from headrace.pipeline.source.offsets import Offsets, Span, offsets_text
from headrace.pipeline.source.spec import SourceSpec

NamedPosition = Literal["earliest", "latest"]

Position = NamedPosition | datetime | Offsets
"""`earliest`, `latest`, a time (the first record that is not older), or offsets."""

BROKER_TIMEOUT_S = 30.0
"""A broker responds to these requests within milliseconds; one that restarts needs seconds."""


def check(position: Position, *, name: str) -> None:
    """Raise if this is no position; `name` is the name of the argument."""
    if isinstance(position, datetime):
        if position.tzinfo is None:
            raise BadSource(
                f"{name}={position!r} has no time zone",
                hint=f"add one: {name}=datetime({position.year}, …, tzinfo=UTC)",
            )
    elif position not in get_args(NamedPosition) and not _are_offsets(position):
        raise BadSource(
            f"{name}={position!r} is no position",
            hint='"earliest", "latest", a datetime, or offsets as {"topic": {0: 17}}',
        )


def _are_offsets(position: Any) -> bool:
    return (
        isinstance(position, Mapping)
        and bool(position)
        and all(
            isinstance(offsets, Mapping)
            and all(isinstance(number, int) for pair in offsets.items() for number in pair)
            for offsets in position.values()
        )
    )


def streaming_start_options(start: Position, *, find_partitions: Callable[[], Offsets]) -> dict[str, str]:
    """Options of Spark's Kafka source. Only for offsets, the partitions are requested from the broker."""
    if isinstance(start, datetime):
        # Without the strategy a topic that has nothing so new yet would be an error.
        return {
            "startingTimestamp": str(_milliseconds(start)),
            "startingOffsetsByTimestampStrategy": "latest",
        }
    if isinstance(start, str):
        return {"startingOffsets": start}
    everywhere = find_partitions()
    return {"startingOffsets": offsets_text(_laid_over(everywhere, start, name="start"))}


def _laid_over(everywhere: Offsets, given: Offsets, *, name: str) -> Offsets:
    """The given offsets, and those of `everywhere` for the other partitions."""
    for topic, offsets in given.items():
        unknown = sorted(set(offsets) - set(everywhere.get(topic, {})))
        if unknown:
            raise BadSource(
                f"{name} names partition {unknown[0]} of {topic}, which is not there",
                hint=f"its partitions are {sorted(everywhere.get(topic, {}))}; is it one of the topics that are read?",
            )
    return {topic: {**offsets, **given.get(topic, {})} for topic, offsets in everywhere.items()}


class TopicsOnBroker:
    """What the broker knows about the topics of a source: their partitions, and the offsets at a position."""

    def __init__(self, spec: SourceSpec) -> None:
        self._cluster = Cluster(spec.bootstrap, timeout_s=BROKER_TIMEOUT_S)
        self._spec = spec

    def partitions(self) -> dict[str, list[int]]:
        return {
            topic: [each.number for each in partitions] for topic, partitions in self._partitions().items()
        }

    def require_topics(self) -> None:
        """Raise BadSource if a topic of the source does not exist."""
        try:
            self._partitions()
        except RequestFailed as error:
            if error.code == UNKNOWN_TOPIC:
                raise BadSource(error.message, hint=error.hint) from error
            raise

    def _partitions(self) -> dict[str, list[Partition]]:
        if self._spec.pattern is None:
            return self._cluster.require_topics(self._spec.topics)
        topics = sorted(self._cluster.topics().items())
        return {name: partitions for name, partitions in topics if re.fullmatch(self._spec.pattern, name)}

    def everywhere(self, offset: int) -> Offsets:
        return {topic: dict.fromkeys(partitions, offset) for topic, partitions in self.partitions().items()}

    def pin(self, start: Position, end: Position) -> Span:
        """The offsets that these positions are now."""
        return Span(
            starts=self._offsets_at(start, otherwise="earliest", name="start"),
            ends=self._offsets_at(end, otherwise="latest", name="end"),
        )

    def ends_written(self) -> Offsets:
        """Where the partitions end, with records of transactions that are still open."""
        return self._request(OffsetSpec.latest(), isolation=IsolationLevel.READ_UNCOMMITTED)

    def _offsets_at(self, position: Position, *, otherwise: NamedPosition, name: str) -> Offsets:
        if isinstance(position, datetime):
            at_time = self._request(OffsetSpec.for_timestamp(_milliseconds(position)))
            # No record is so new: then it is the end.
            ends = self._request(OffsetSpec.latest())
            return {
                topic: {p: ends[topic][p] if offset < 0 else offset for p, offset in offsets.items()}
                for topic, offsets in at_time.items()
            }
        if isinstance(position, str):
            return self._request(OffsetSpec.earliest() if position == "earliest" else OffsetSpec.latest())
        return _laid_over(self._offsets_at(otherwise, otherwise=otherwise, name=name), position, name=name)

    def _request(
        self, spec: OffsetSpec, *, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> dict[str, dict[int, int]]:
        """By default up to the last committed record, as the source itself reads."""
        partitions = [each for listed in self._partitions().values() for each in listed]
        offsets = self._cluster.offsets(partitions, spec, isolation=isolation, retry_s=BROKER_TIMEOUT_S)
        found: dict[str, dict[int, int]] = {}
        for each, offset in offsets.items():
            found.setdefault(each.topic, {})[each.number] = offset
        return found


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
