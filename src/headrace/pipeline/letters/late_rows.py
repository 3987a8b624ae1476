"""The late rows of a job that are to be kept: read from the files that its tasks leave, and written to their topics.

They are written when the sink has written and before Spark commits, in one transaction with the batch's fence. The
files lie in the checkpoint until then. A process that dies in between runs the batch again, which leaves the same ones.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.dead_letters import (
    GROUP_HEADER,
    OFFSET_HEADER,
    OPERATOR_HEADER,
    PARTITION_HEADER,
    REASON_HEADER,
    TIMESTAMP_HEADER,
    TOPIC_HEADER,
    WATERMARK_HEADER,
    WINDOW_END_HEADER,
    WINDOW_START_HEADER,
    Header,
    dead_letter_topic,
    with_errors,
)
from headrace.dead_letters import TOPIC_CONFIG as DEAD_LETTER_TOPIC_CONFIG
from headrace.pipeline.errors import BadJob
from headrace.pipeline.sinks.transactional_batch import OutgoingMessage, TransactionalBatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.operators.late_rows import LateLot
    from headrace.pipeline.fence import Fence
    from headrace.plan_names import OperatorMark

FOLDER = "headrace-late"
"""Within the checkpoint, which driver and executors share because the state is there."""

TOPIC_CONFIG = {"max.message.bytes": str(64 * 1024 * 1024)}
"""A record of the largest size that its own topic allows grows by the headers."""

_ORIGIN_HEADERS = {
    "_topic": TOPIC_HEADER,
    "_partition": PARTITION_HEADER,
    "_offset": OFFSET_HEADER,
    "_timestamp": TIMESTAMP_HEADER,
}


class LateRows:
    """Those of one job. Nothing is connected to before there is one."""

    def __init__(
        self,
        job: str,
        marks: Sequence[OperatorMark],
        *,
        bootstrap: str,
        checkpoint: Path,
        topic: str | None = None,
    ) -> None:
        self._job = job
        self._bootstrap = bootstrap
        self._folder = checkpoint / FOLDER
        self._batches: dict[str, TransactionalBatch] = {}
        self._topic = topic or dead_letter_topic(job)
        self.topics = tuple(
            dict.fromkeys(mark.late_topic or self._topic for mark in marks if mark.late_topic is not None)
        )
        self.written = 0
        """since the job was started"""
        _check_distinct(job, marks)

    @contextlib.contextmanager
    def told_to(self, spark: SparkSession) -> Iterator[None]:
        """A query that is started inside leaves its late rows here."""
        if not self.topics:
            yield
            return
        from headrace.plan_names import LATE_ROWS_FOLDER

        spark.sparkContext.setLocalProperty(LATE_ROWS_FOLDER, str(self._folder))
        try:
            yield
        finally:
            spark.sparkContext.setLocalProperty(LATE_ROWS_FOLDER, None)  # type: ignore[arg-type]  # that removes it

    def of_batch(self, fence: Fence) -> None:
        """Write what the batch has left; what was written before is not written again."""
        if not self.topics:
            return
        from headrace.operators.late_rows import forget_lots, late_lots

        lots: dict[str, list[LateLot]] = {}
        for lot in late_lots(self._folder, fence.batch_id):
            lots.setdefault(lot.topic or self._topic, []).append(lot)
        for topic, of_topic in lots.items():
            messages = (self._message(lot, row) for lot in of_topic for row in lot.rows().to_pylist())
            self.written += self._batch(topic).write(messages, fence)
        forget_lots(self._folder, fence.batch_id)

    def close(self) -> None:
        for batch in self._batches.values():
            batch.close()
        self._batches.clear()

    def _batch(self, topic: str) -> TransactionalBatch:
        if topic not in self._batches:
            self._batches[topic] = TransactionalBatch(
                f"headrace-late.{self._job}.{topic}",
                topic=topic,
                bootstrap=self._bootstrap,
                topic_config=TOPIC_CONFIG
                if topic != self._topic
                else {**DEAD_LETTER_TOPIC_CONFIG, **TOPIC_CONFIG},
            )
        return self._batches[topic]

    def _message(self, lot: LateLot, late: Mapping[str, Any]) -> OutgoingMessage:
        original = json.loads(late["original"])
        end, watermark = _iso(late["window_end"]), _iso(late["watermark"])
        errors = {
            GROUP_HEADER: self._job,
            OPERATOR_HEADER: lot.operator,
            WINDOW_START_HEADER: _iso(late["window_start"]),
            WINDOW_END_HEADER: end,
            WATERMARK_HEADER: watermark,
            REASON_HEADER: f"late: the window ended at {end}, before the watermark {watermark}",
        }
        for column, header in _ORIGIN_HEADERS.items():
            if original.get(column) is not None:
                errors[header] = str(original[column])
        return OutgoingMessage(
            value=original["row"].encode(),
            key=_key(original),
            headers=with_errors(_own_headers(original), errors),
        )


def _check_distinct(job: str, marks: Sequence[OperatorMark]) -> None:
    seen: set[tuple[str, str]] = set()
    for mark in marks:
        if mark.late_topic is None:
            continue
        if (mark.late_topic, mark.owner) in seen:
            raise BadJob(
                f"job {job}: two operators that are the same keep late rows in topic {mark.late_topic}: "
                f"{mark.kept_for}",
                hint="unite the rows before the operator; or give each operator a topic of its own",
            )
        seen.add((mark.late_topic, mark.owner))


def _key(original: Mapping[str, Any]) -> bytes | None:
    if original.get("_key_base64") is not None:
        return base64.b64decode(original["_key_base64"])
    return None if original.get("_key") is None else str(original["_key"]).encode()


def _own_headers(original: Mapping[str, Any]) -> Iterator[Header]:
    for header in original.get("_headers") or []:
        yield header["key"], None if header["value"] is None else base64.b64decode(header["value"])


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
