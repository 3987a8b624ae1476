"""A source as it was declared, in an option of Spark's source."""

from __future__ import annotations

from msgspec.structs import replace

from headrace.pipeline.source.spec import SourceSpec

SPEC = SourceSpec(
    id="0123456789ab",
    bootstrap="127.0.0.1:9092",
    topics=("clicks", "views"),
    pattern=None,
    format="json",
    schema='{"type":"struct","fields":[]}',
    required=("at",),
    bounded=False,
    dead_letters=None,
    options={"minPartitions": "8", "kafka.security.protocol": "SSL"},
    idle_us=1_000_000,
)


def test_spec_survives_its_option() -> None:
    assert SourceSpec.from_option(SPEC.to_option()) == SPEC


def test_option_of_a_version_without_idle_sources_is_read() -> None:
    assert SourceSpec.from_option(SPEC.to_option().replace('"idle_us"', '"unknown"')) == replace(
        SPEC, idle_us=None
    )


def test_metric_of_bad_records_is_that_of_the_source() -> None:
    assert SPEC.bad_metric.endswith(SPEC.id)
    assert SPEC.bad_metric != replace(SPEC, id="other").bad_metric


def test_only_binary_has_no_bad_records() -> None:
    assert SPEC.can_have_bad
    assert not replace(SPEC, format="binary").can_have_bad
