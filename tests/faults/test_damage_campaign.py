"""Random files damaged, emptied and deleted between two runs of a broker: no acknowledged record is lost silently.

A failing round is repeated with HEADRACE_TEST_DAMAGE_SEED set to the seed that it printed.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.faults.damage_campaign import run_rounds, write

SHORT_ROUNDS = 5
LONG_ROUNDS = int(os.environ.get("HEADRACE_TEST_DAMAGE_ROUNDS", "500"))


def seed() -> int:
    return int(os.environ.get("HEADRACE_TEST_DAMAGE_SEED", random.SystemRandom().randrange(2**32)))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("ending", ["clean stop", "kill"])
def test_damaged_files_lose_no_acknowledged_record_silently(tmp_path: Path, ending: str) -> None:
    written = write(tmp_path / "written", is_clean=ending == "clean stop")
    print(run_rounds(written, tmp_path / "data", seed=seed(), rounds=SHORT_ROUNDS))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("ending", ["clean stop", "kill"])
def test_many_damaged_files_lose_no_acknowledged_record_silently(tmp_path: Path, ending: str) -> None:
    written = write(tmp_path / "written", is_clean=ending == "clean stop")
    print(run_rounds(written, tmp_path / "data", seed=seed(), rounds=LONG_ROUNDS))
