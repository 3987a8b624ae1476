"""The script of the demonstration. `test_run.py` runs its job."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.demo.clicks_by_url import milestone
from headrace.cli.demo.processes import JobProcess


def test_milestones_are_read_from_the_output_of_the_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("Spark", "start of the job"):
        milestone(name)
    job = JobProcess(bootstrap="127.0.0.1:1", data_dir=tmp_path)

    for line in ["a line of another kind\n", *capsys.readouterr().out.splitlines(keepends=True)]:
        job.on_line(line)

    assert [name for _, name in job.milestones] == ["Spark", "start of the job"]
    assert job.milestones == sorted(job.milestones)
