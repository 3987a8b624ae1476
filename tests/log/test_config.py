"""The settings of a log."""

from __future__ import annotations

import pytest

from headrace.log.config import LogConfig

DAY_MS = 24 * 60 * 60 * 1000


def test_defaults_are_those_of_kafka() -> None:
    config = LogConfig()
    assert config.segment_bytes_max == 1_073_741_824
    assert config.segment_ms == config.retention_ms == 7 * DAY_MS
    assert (config.index_interval_bytes, config.index_bytes_max) == (4096, 10_485_760)
    assert (config.retention_bytes, config.local_retention_ms, config.local_retention_bytes) == (-1, -2, -2)
    assert (config.min_cleanable_dirty_ratio, config.delete_retention_ms) == (0.5, DAY_MS)
    assert (config.min_compaction_lag_ms, config.max_compaction_lag_ms) == (0, 2**63 - 1)
    assert (config.batch_bytes_max, config.timestamp_after_max_ms) == (1_048_588, 3_600_000)
    assert (config.file_delete_delay_ms, config.producer_id_expiration_ms) == (60_000, DAY_MS)


@pytest.mark.parametrize(
    ("policy", "is_compacted"),
    [((), False), (("delete",), False), (("compact",), True), (("compact", "delete"), True)],
)
def test_log_is_compacted_whenever_its_policy_has_compact(
    policy: tuple[str, ...], is_compacted: bool
) -> None:
    assert LogConfig(cleanup_policy=frozenset(policy)).is_compacted is is_compacted
