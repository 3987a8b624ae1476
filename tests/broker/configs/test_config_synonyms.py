"""The broker setting that is the default of a config, under Kafka's names."""

from __future__ import annotations

import pytest

from headrace.broker.configs.config_synonyms import BROKER_SYNONYMS
from headrace.broker.configs.group_configs import GROUP_CONFIGS
from headrace.broker.configs.topic_configs import TOPIC_CONFIGS


def test_every_config_with_a_synonym_exists() -> None:
    assert BROKER_SYNONYMS.keys() <= TOPIC_CONFIGS.keys() | GROUP_CONFIGS.keys()


@pytest.mark.parametrize(
    ("config", "synonym"),
    [
        ("compression.type", "compression.type"),
        ("retention.bytes", "log.retention.bytes"),
        ("delete.retention.ms", "log.cleaner.delete.retention.ms"),
        ("share.record.lock.duration.ms", "group.share.record.lock.duration.ms"),
        ("max.message.bytes", "message.max.bytes"),
    ],
)
def test_synonym_is_that_of_kafka(config: str, synonym: str) -> None:
    assert BROKER_SYNONYMS[config] == synonym


def test_two_configs_never_have_the_same_synonym() -> None:
    assert len({*BROKER_SYNONYMS.values()}) == len(BROKER_SYNONYMS)


def test_config_whose_setting_has_another_unit_has_no_synonym() -> None:
    """Kafka's own are in hours or scheduled otherwise: log.retention.hours, log.roll.hours."""
    assert BROKER_SYNONYMS.keys().isdisjoint({"retention.ms", "segment.ms", "segment.jitter.ms", "flush.ms"})
