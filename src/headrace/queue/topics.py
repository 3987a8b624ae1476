"""Which topics a queue reads: those that it names, which must exist, or all that match a pattern."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headrace.names import did_you_mean
from headrace.queue.errors import QueueUnusable

logger = logging.getLogger("headrace.queue")

PATTERN_REFRESH_S = 5.0
"""How often topics are looked for that match a pattern; their messages wait, none is missed."""

APPEAR_S_MAX = 0.5
"""Apache Kafka's nodes learn of a new topic a moment after its creation was confirmed."""


class MatchingTopics:
    """All topics whose whole name matches, new ones included; never the broker's own, nor the one left out."""

    def __init__(
        self, admin: AdminClient, pattern: re.Pattern[str], *, leave_out: str, timeout_s: float
    ) -> None:
        self._admin = admin
        self._pattern = pattern
        self._leave_out = leave_out
        self._timeout_s = timeout_s
        self._matched: Sequence[str] = ()
        self._matched_at_s = float("-inf")

    def current(self) -> Sequence[str]:
        now_s = time.monotonic()
        if now_s < self._matched_at_s + PATTERN_REFRESH_S:
            return self._matched
        try:
            there = _topic_names(self._admin, self._timeout_s)
        except KafkaException as error:
            logger.warning("topics can't be listed, going on with those known: %s", error.args[0].str())
            there = list(self._matched)
        self._matched_at_s = now_s
        self._matched = sorted(name for name in there if self._is_match(name))
        return self._matched

    def _is_match(self, name: str) -> bool:
        is_ours = name.startswith("__") or name == self._leave_out
        return not is_ours and self._pattern.fullmatch(name) is not None


def require_topics(admin: AdminClient, wanted: Sequence[str], timeout_s: float) -> None:
    """Raise QueueUnusable if one is missing: a queue on it would wait for ever."""
    deadline_s = time.monotonic() + APPEAR_S_MAX
    while True:
        try:
            there = _topic_names(admin, timeout_s)
        except KafkaException as error:
            raise QueueUnusable(
                f"topics can't be listed: {error.args[0].str()}",
                hint="is this the address of a broker, and can the addresses that it names be reached from here?",
            ) from error
        missing = [name for name in wanted if name not in there]
        if not missing:
            return
        if time.monotonic() > deadline_s:
            create = f"`headrace topic create {missing[0]}` creates it"
            raise QueueUnusable(
                f"there is no topic {missing[0]}",
                hint=f"{did_you_mean(missing[0], there)} {create}".strip(),
            )
        time.sleep(0.05)


def _topic_names(admin: AdminClient, timeout_s: float) -> list[str]:
    # All of them: to ask for one by name may create it.
    return list(admin.list_topics(timeout=timeout_s).topics)
