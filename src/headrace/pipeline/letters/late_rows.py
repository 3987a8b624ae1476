"""Late rows that operators keep: passed by tasks to the driver, and written to their topics.

They are written after the sink has written and before Spark commits, in one transaction with the batch's fence. Until
then they are in files in the checkpoint. Tasks have no access to a checkpoint in another file system: there they pass
late rows with their results (`operators/late_rows`). If the process dies in between, the batch is run again and passes
the same rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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
    with_errors,
)
from headrace.pipeline.errors import BadJob
from headrace.pipeline.letters.dead_letters import LARGE_MESSAGES, TOPIC_CONFIG, DeadLetters, iso
from headrace.pipeline.sinks.transactional_batch import OutgoingMessage
from headrace.plan_names import LATE_ROWS_FOLDER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.operators.late_rows import LateLot, LateRow, PassedLots
    from headrace.pipeline.fence import Fence
    from headrace.plan_names import OperatorMark

FOLDER = "headrace-late"
"""In a checkpoint on this machine, or in a folder that all machines mount."""

_ORIGIN_HEADERS = {
    "_topic": TOPIC_HEADER,
    "_partition": PARTITION_HEADER,
    "_offset": OFFSET_HEADER,
    "_timestamp": TIMESTAMP_HEADER,
}


class LateRows:
    """The late rows of one job, written beside its dead letters."""

    def __init__(
        self, letters: DeadLetters, marks: Sequence[OperatorMark], *, checkpoint: Path | None
    ) -> None:
        """`checkpoint` is None if it is not a folder that the tasks can write."""
        self._letters = letters
        self._folder = None if checkpoint is None else checkpoint / FOLDER
        self._passed: PassedLots | None = None
        self.topics = tuple(
            dict.fromkeys(mark.late_topic or letters.topic for mark in marks if mark.late_topic is not None)
        )
        self.written = 0
        """since the start of the job"""
        _check_distinct(letters.job, marks)

    @contextlib.contextmanager
    def collected(self, spark: SparkSession) -> Iterator[None]:
        """The tasks of a query that is started inside write their late rows for this job."""
        if not self.topics:
            yield
            return
        if self._folder is None and self._passed is None:
            from headrace.operators.late_rows import PassedLots

            self._passed = PassedLots()
        place = str(self._folder) if self._passed is None else self._passed.address
        spark.sparkContext.setLocalProperty(LATE_ROWS_FOLDER, place)
        try:
            yield
        finally:
            spark.sparkContext.setLocalProperty(LATE_ROWS_FOLDER, None)  # type: ignore[arg-type]  # that removes it

    def of_batch(self, fence: Fence) -> None:
        """Write the late rows of the batch, unless an earlier run of the batch has written them."""
        if not self.topics:
            return
        lots: dict[str, list[LateLot]] = {}
        for lot in self._lots(fence.batch_id):
            lots.setdefault(lot.topic or self._letters.topic, []).append(lot)
        for topic, of_topic in lots.items():
            batch = self._letters.batch(
                f"headrace-late.{self._letters.job}.{topic}",
                topic,
                topic_config=TOPIC_CONFIG if topic == self._letters.topic else LARGE_MESSAGES,
            )
            messages = (self._message(lot.operator, late) for lot in of_topic for late in lot.rows())
            self.written += batch.write(messages, fence)
        self._delete(fence.batch_id)

    def _lots(self, batch_id: int) -> list[LateLot]:
        from headrace.operators.late_rows import late_lots

        if self._passed is not None:
            return self._passed.of_batch(batch_id)
        return [] if self._folder is None else late_lots(self._folder, batch_id)

    def _delete(self, batch_id: int) -> None:
        from headrace.operators.late_rows import delete_lots

        if self._passed is not None:
            self._passed.delete(batch_id)
        elif self._folder is not None:
            delete_lots(self._folder, batch_id)

    def _message(self, operator: str, late: LateRow) -> OutgoingMessage:
        errors = {GROUP_HEADER: self._letters.job, OPERATOR_HEADER: operator, **_reason(late)}
        for column, header in _ORIGIN_HEADERS.items():
            if late.record.get(column) is not None:
                errors[header] = str(late.record[column])
        return OutgoingMessage(
            value=late.content.encode(), key=late.key, headers=with_errors(late.headers, errors)
        )


def _reason(late: LateRow) -> dict[str, str]:
    if late.window_start is None or late.window_end is None or late.watermark is None:
        return {REASON_HEADER: late.reason or "rejected"}
    end, watermark = iso(late.window_end), iso(late.watermark)
    if late.window_start == late.window_end:  # of an operator without windows
        reason = f"late: the time of the row is {end}, before the watermark {watermark}"
        return {WATERMARK_HEADER: watermark, REASON_HEADER: reason}
    return {
        WINDOW_START_HEADER: iso(late.window_start),
        WINDOW_END_HEADER: end,
        WATERMARK_HEADER: watermark,
        REASON_HEADER: f"late: the window ended at {end}, before the watermark {watermark}",
    }


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
