"""The configs of topics: names and defaults of Kafka, and the settings of a log that they set."""

from __future__ import annotations

import pytest

from headrace.broker.configs.topic_configs import (
    TOPIC_CONFIGS,
    check_archive_configs,
    check_configs,
    definition,
    log_config,
)
from headrace.broker.rejections import RequestRejected
from headrace.log.config import LogConfig
from headrace.records.compression import Codec

ARCHIVED = {"remote.storage.enable": "true"}


@pytest.mark.parametrize("name", TOPIC_CONFIGS)
def test_default_is_allowed(name: str) -> None:
    check_configs({name: TOPIC_CONFIGS[name].default})


def test_log_has_the_values_of_its_topic_and_the_bounds_of_the_broker() -> None:
    overrides = {
        "cleanup.policy": "compact, delete",
        "compression.type": "zstd",
        "compression.zstd.level": "7",
        "compression.gzip.level": "1",
        "retention.ms": "-1",
        "segment.bytes": "1000",
        "remote.storage.enable": "true",
        "min.insync.replicas": "2",
    }
    config = log_config(overrides, producer_ids_max=5)
    assert config.cleanup_policy == {"compact", "delete"}
    assert (config.compression, config.compression_level) == (Codec.ZSTD, 7)
    assert (config.retention_ms, config.segment_bytes_max, config.is_archived) == (-1, 1_000, True)
    assert config.producer_ids_max == 5
    assert log_config({}) == LogConfig(), "the defaults of a log are those of its topic"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "shred"),
        ("compression.type", "rar"),
        ("retention.ms", "-2"),
        ("retention.ms", "a week"),
        ("segment.bytes", str(2**31)),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.cleanable.dirty.ratio", "half"),
        ("preallocate", "yes"),
    ],
)
def test_value_that_is_not_allowed_is_rejected_by_name(name: str, value: str) -> None:
    with pytest.raises(RequestRejected, match=name):
        check_configs({name: value})


def test_unknown_config_is_rejected_with_the_one_that_was_meant() -> None:
    with pytest.raises(RequestRejected, match="Unknown topic config name: retention") as error:
        definition("retention.msec")
    assert "retention.ms" in error.value.hint


@pytest.mark.parametrize(
    "overrides",
    [
        {"cleanup.policy": "compact"},
        {"retention.ms": "1000", "local.retention.ms": "2000"},
        {"retention.bytes": "1000", "local.retention.bytes": "-1"},
    ],
    ids=["compacted", "longer locally", "unlimited locally"],
)
def test_topic_that_cannot_be_archived_is_rejected(overrides: dict[str, str]) -> None:
    check_archive_configs(overrides, was_archived=False, can_archive=True)
    with pytest.raises(RequestRejected):
        check_archive_configs({**overrides, **ARCHIVED}, was_archived=False, can_archive=True)


def test_archiving_needs_an_archive_and_ends_with_consent_to_delete() -> None:
    check_archive_configs(ARCHIVED, was_archived=False, can_archive=True)
    with pytest.raises(RequestRejected):
        check_archive_configs(ARCHIVED, was_archived=False, can_archive=False)
    with pytest.raises(RequestRejected):
        check_archive_configs({}, was_archived=True, can_archive=True)
    consent = {"remote.log.delete.on.disable": "true"}
    check_archive_configs(consent, was_archived=True, can_archive=True)
