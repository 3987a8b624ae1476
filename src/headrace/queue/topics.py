"""The topics that match a queue's pattern."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence

from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import RequestFailed

logger = logging.getLogger("headrace.queue")

PATTERN_REFRESH_S = 5.0
"""How often new topics are looked for; their messages wait, and none is missed."""


class MatchingTopics:
    """All topics whose whole name matches, new ones included; never internal topics, nor the excluded one."""

    def __init__(self, cluster: Cluster, pattern: re.Pattern[str], *, exclude: str) -> None:
        self._cluster = cluster
        self._pattern = pattern
        self._exclude = exclude
        self._matched: Sequence[str] = ()
        self._matched_at_s = float("-inf")

    def current(self) -> Sequence[str]:
        now_s = time.monotonic()
        if now_s < self._matched_at_s + PATTERN_REFRESH_S:
            return self._matched
        try:
            self._matched = sorted(name for name in self._cluster.topics() if self._is_match(name))
        except RequestFailed as error:
            logger.warning("topics can't be listed, continuing with those known: %s", error)
        self._matched_at_s = now_s
        return self._matched

    def _is_match(self, name: str) -> bool:
        is_excluded = name.startswith("__") or name == self._exclude
        return not is_excluded and self._pattern.fullmatch(name) is not None
