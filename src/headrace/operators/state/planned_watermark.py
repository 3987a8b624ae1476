"""The watermark of the running batch, for tasks before the shuffle: Spark passes it only to stateful operators."""

from __future__ import annotations

import json
from pathlib import Path

from headrace.operators.late_rows import BATCH_PROPERTY
from headrace.operators.state.bucket import MILLISECOND_US
from headrace.operators.state.step import BEGINNING_US
from headrace.plan_names import CHECKPOINT_FOLDER


def planned_watermark_us() -> int | None:
    """In a task: the watermark that Spark has planned for the batch, which is not before that of any operator in it.

    None without a Job, which sets the folder of the checkpoint, and if this machine can't read the folder.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    folder = context.getLocalProperty(CHECKPOINT_FOLDER) if context else None
    batch = context.getLocalProperty(BATCH_PROPERTY) if context else None
    if not folder or not batch:
        return None
    try:
        _, about, *_ = (Path(folder) / "offsets" / batch).read_text().split("\n")
    except OSError:
        return None
    return int(json.loads(about).get("batchWatermarkMs", 0)) * MILLISECOND_US or BEGINNING_US


def nothing_is_late() -> int:
    """For bounded rows."""
    return BEGINNING_US
