"""Runs the programs of samples, each in its own process, with a Spark session, a warm-up, and timed work."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from headrace.errors import HeadraceError

PROGRAM_TIMEOUT_S = 1_800
"""The slowest sample of a full run, a million rows by `executemany` into PostgreSQL, takes some minutes."""

OUTPUT_LINES_QUOTED = 25


class ProgramFailed(HeadraceError):
    """A program of the benchmark ended with an error."""


def run_program(bench: Bench, module: str, **arguments: Any) -> dict[str, float]:
    """Run `module` with the arguments and a temporary folder. Its last line of output is a JSON object of figures."""
    return run_command(bench, [sys.executable, "-m", module], **arguments)


def run_command(bench: Bench, command: Sequence[str], **arguments: Any) -> dict[str, float]:
    """Like `run_program`, with another interpreter."""
    with bench.folder() as folder:
        arguments["folder"] = str(folder)
        done = subprocess.run(
            [*command, json.dumps(arguments)],
            capture_output=True,
            text=True,
            timeout=PROGRAM_TIMEOUT_S,
            check=False,
        )
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        # Java's stack traces would hide the error.
        output = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("\tat ")]
        last = "\n".join(output[-OUTPUT_LINES_QUOTED:]).strip()
        name = Path(command[-1]).name
        raise ProgramFailed(f"{name} ended with code {done.returncode}; its last output:\n{last}")
    figures: dict[str, float] = json.loads(lines[-1])
    return figures
