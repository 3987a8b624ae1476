"""The back-off before a record is delivered again."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.configs.share_rules import Rules


def test_back_off_is_multiplied_with_every_delivery_up_to_its_limit() -> None:
    rules = Rules(backoff_ms=100, backoff_ms_max=1_000, backoff_multiplier=3.0)
    assert [rules.delay_ms(count) for count in range(1, 6)] == [100, 300, 900, 1_000, 1_000]


def test_without_a_back_off_records_are_delivered_immediately() -> None:
    assert Rules(backoff_ms=0, backoff_ms_max=1_000).delay_ms(9) == 0


@given(
    st.integers(1, 100_000),
    st.integers(1, 1_000_000),
    st.floats(1, 10, allow_nan=False),
)
def test_back_off_never_shrinks_nor_exceeds_its_limit_nor_overflows(
    backoff_ms: int, backoff_ms_max: int, multiplier: float
) -> None:
    rules = Rules(backoff_ms=backoff_ms, backoff_ms_max=backoff_ms_max, backoff_multiplier=multiplier)
    delays_ms = [rules.delay_ms(count) for count in (1, 2, 3, 10, 100, 32_767)]
    assert all(one <= other for one, other in pairwise(delays_ms))
    assert delays_ms[-1] <= backoff_ms_max
