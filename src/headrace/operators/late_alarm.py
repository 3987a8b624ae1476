"""A warning if a stream has more late rows than its user accepts.

The core counts late rows in the observed metrics of a query. The alarm listens to the progress of all queries of a
session.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from pyspark.sql.streaming.listener import StreamingQueryListener

from headrace.plan_names import ALARM_ABOVE, LATE, LATE_METRIC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("headrace.operators")

_LOCK = threading.Lock()
_LISTENED: WeakSet[SparkSession] = WeakSet()


def listen_for_late_rows(spark: SparkSession) -> None:
    """Add the listener to a session, once."""
    with _LOCK:
        if spark not in _LISTENED:
            spark.streams.addListener(LateAlarm())
            _LISTENED.add(spark)


class LateAlarm(StreamingQueryListener):
    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        progress = event.progress
        for name, metrics in progress.observedMetrics.items():
            if name.startswith(LATE_METRIC):
                self._check(progress, name, metrics[LATE], metrics[ALARM_ABOVE])

    def _check(self, progress: Any, name: str, late: int, alarm_above: float | None) -> None:
        # Overlapping windows count a row once for each window for which it is late.
        if alarm_above is None or late <= alarm_above * progress.numInputRows:
            return
        logger.warning(
            "query %s, batch %d: %d of %d rows were late for %s, more than a fraction of %g",
            progress.name or progress.id,
            progress.batchId,
            late,
            progress.numInputRows,
            name.removeprefix(LATE_METRIC).partition(":")[0],
            alarm_above,
        )
