"""The step of sliding windows beside an oracle."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operators.windows.pane_oracle import Row, Rules, SlidingOracle
from tests.operators.windows.stepping import Windows, batches, require_agreement, rules


@settings(max_examples=100)
@given(batches(), rules.filter(lambda each: each.panes != "discarding"), st.integers(1, 30), st.booleans())
def test_sliding_windows_match_the_oracle_at_every_step(
    batches: list[tuple[list[Row], float, int]], rules: Rules, within: int, restarts: bool
) -> None:
    oracle = SlidingOracle(rules, within)
    windows = Windows(rules, sliding=within)
    require_agreement(windows, oracle, batches, restarts=restarts)
