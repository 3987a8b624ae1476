"""State stays bounded: a long run with a steady set of keys needs no more memory and disk at its end than before."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.testing.requirements import require_java

REPOSITORY = Path(__file__).parents[3]
EVENTS = 10_000_000
KEYS = 10_000
RUN_TIMEOUT_S = 1_800
GROWTH_MAX = 1.25
"""Of the last quarter over the second one. State that is never deleted would more than double it."""


@pytest.mark.slow
@pytest.mark.timeout(RUN_TIMEOUT_S + 30)
def test_ten_million_events_of_a_steady_key_set_leave_memory_and_checkpoint_flat(tmp_path: Path) -> None:
    require_java()
    arguments = {"folder": str(tmp_path), "events": EVENTS, "keys": KEYS}
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.operators.programs.steady_state", json.dumps(arguments)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    print(run.stderr)  # the table
    samples = json.loads(run.stdout.splitlines()[-1])

    quarter = len(samples) // 4
    # The minimum of memory is live data without that of a batch in flight; the maximum of a folder is its need.
    for name, most_or_least in (
        ("heap_mb", min),
        ("workers_mb", min),
        ("beside_heap_mb", min),
        ("checkpoint_mb", max),
    ):
        early, last = (
            most_or_least(sample[name] for sample in part)
            for part in (samples[quarter : 2 * quarter], samples[-quarter:])
        )
        assert last <= early * GROWTH_MAX, (name, [sample[name] for sample in samples])
