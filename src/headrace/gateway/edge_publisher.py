"""Writing records by an overload policy of edges that does not block, for senders that need no offsets.

With `buffer`, records are taken while the broker is unavailable. With `drop-newest` and `drop-oldest`, a full memory
drops records, and their senders get 429.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError

from headrace.edges.event import Event, Fate, Reason
from headrace.edges.metrics import EdgeCollector
from headrace.edges.overload import Intake, Overloaded, Sent
from headrace.edges.settings import EdgeSettings
from headrace.gateway.errors import BadRequest, BrokerUnavailable, TooManyRecords
from headrace.gateway.publisher import DO_NOT_RETRY, MAY_RETRY, Outcome, Written
from headrace.gateway.records import NewRecord
from headrace.gateway.settings import GatewaySettings

NAME = "gateway"
"""Of the buffer on disk, and in the metrics."""

_ERRORS = {
    Reason.NEWEST: (MAY_RETRY, KafkaError._QUEUE_FULL),
    Reason.OLDEST: (MAY_RETRY, KafkaError._QUEUE_FULL),
    Reason.STOPPED: (MAY_RETRY, KafkaError._TRANSPORT),
}
_REJECTED = (DO_NOT_RETRY, KafkaError.INVALID_RECORD)


class EdgePublisher:
    """`config` is that of a client of the broker."""

    def __init__(
        self,
        config: Mapping[str, Any],
        edge: EdgeSettings,
        settings: GatewaySettings,
        *,
        on_problem: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._policy = edge.overload
        self._timeout_s = settings.produce_ms_max / 1000
        # A sender is told what was dropped, and may send it again.
        self._intake = Intake(config, edge, name=NAME, on_problem=on_problem, marks_drops=False)
        self.collector = EdgeCollector(NAME, self._intake.count, dict)

    async def publish(
        self, topic: str, records: Sequence[NewRecord], *, partition: int | None = None
    ) -> Outcome:
        """When all of them are acknowledged, on disk, or dropped."""
        if partition is not None or any(each.partition is not None for each in records):
            raise BadRequest(
                f"with the overload policy {self._policy}, the key of a record chooses its partition",
                hint="write without a partition, or run the gateway with --overload block",
            )
        try:
            async with asyncio.timeout(self._timeout_s):
                sent = await self._intake.send([_event(topic, each) for each in records])
        except Overloaded as error:
            raise TooManyRecords(error.message, hint="send the same request later") from error
        except TimeoutError:
            raise BrokerUnavailable(
                "the broker did not acknowledge the records in time",
                hint="they may be written later, unless the overload policy drops them",
            ) from None
        failures = frozenset(_error(each)[1] for each in sent if each.fate is Fate.DROPPED)
        is_buffered = any(each.fate is Fate.BUFFERED for each in sent)
        return Outcome([_written(each) for each in sent], failures, is_buffered)

    def close(self) -> None:
        """Blocking: deliver what was taken, for as long as the settings of edges say."""
        self._intake.close()


def _event(topic: str, record: NewRecord) -> Event:
    headers = tuple(
        (name, value.encode() if isinstance(value, str) else value) for name, value in record.headers
    )
    return Event(topic=topic, value=record.value, key=record.key, headers=headers)


def _written(sent: Sent) -> Written:
    if sent.fate is not Fate.DROPPED:
        return Written(None, None)
    return Written(None, None, _error(sent)[0], f"dropped: {sent.why}")


def _error(sent: Sent) -> tuple[int, int]:
    return next((found for reason, found in _ERRORS.items() if sent.why == reason), _REJECTED)
