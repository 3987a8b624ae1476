"""The bounds of a registry."""

from headrace.gateway.registry.limits import RegistryLimits

RECORD_BYTES_MAX = 1024 * 1024
"""The default of a topic's max.message.bytes."""


def test_a_schema_within_the_limit_fits_a_record_of_a_topic() -> None:
    assert RegistryLimits().schema_bytes_max < RECORD_BYTES_MAX - 100_000
