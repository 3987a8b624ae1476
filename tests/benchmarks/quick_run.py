"""A small round of a benchmark, as a person starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]


def quick_run(package: str, folder: Path, *options: str, timeout_s: float) -> list[dict[str, Any]]:
    """The rows that it has measured. It writes to the folder, and leaves only the file of its results there."""
    results = results_file(package, folder)
    command = [sys.executable, "-m", f"benchmarks.{package}", "--quick", *options]
    command += ["--json", str(results), "--workplace", str(folder)]
    run = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    rows: list[dict[str, Any]] = json.loads(results.read_text())["rows"]
    return rows


def results_file(package: str, folder: Path) -> Path:
    return folder / f"{package}.json"
