"""File descriptors: how many connections there may be, and the limit of the process."""

from __future__ import annotations

import resource

import pytest

from headrace.broker import descriptors


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, 2000), (1_000_000, 2000), (1024, 736), (80, 28), (10, 1)]
)
def test_a_quarter_of_the_descriptors_is_not_for_connections(limit: int | None, expected: int) -> None:
    assert descriptors.connections_max(2000, limit) == expected


def test_connections_and_segments_that_fit_the_limit_are_all_accepted() -> None:
    limit = descriptors.wanted(connections=100, partitions=100)
    assert descriptors.connections_max(100, limit) == 100


def test_limit_is_raised_to_what_the_system_allows() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1_000), hard))
    try:
        assert descriptors.current_limit() == min(soft, 1_000)
        descriptors.raise_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
