"""`headrace job state`: errors without Spark, and how rows are shown. Reading state is tested in tests/pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.job.state import _cell, _keys
from headrace.errors import HeadraceError
from headrace.pipeline.report.registry import JobState, JobStatus, Registry
from tests.cli.conftest import Headrace


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Of a job that has not had a batch yet."""
    folder = Registry(tmp_path).folder("counts")
    (folder.path / "checkpoint").mkdir(parents=True)
    folder.write(JobStatus(name="counts", state=JobState.STOPPED, pid=1, mode="micro-batch"))
    return folder.path / "checkpoint"


def test_missing_job_is_an_error(headrace: Headrace, tmp_path: Path, checkpoint: Path) -> None:
    ran = headrace("job", "state", "count", "--data-dir", str(tmp_path), code=1)

    assert "there is no job count" in ran.err
    assert "hint: known here: counts" in ran.err


def test_job_without_a_batch_has_no_state_yet(headrace: Headrace, tmp_path: Path, checkpoint: Path) -> None:
    ran = headrace("job", "state", "counts", "--data-dir", str(tmp_path), code=1)

    assert "has not committed a batch yet" in ran.err


def test_job_without_state_is_an_error_and_starts_no_spark(
    headrace: Headrace, tmp_path: Path, checkpoint: Path
) -> None:
    (checkpoint / "commits").mkdir()
    (checkpoint / "commits" / "3").write_text("v1\n{}")
    ran = headrace("job", "state", "counts", "--data-dir", str(tmp_path), code=1)

    assert "job counts keeps no state" in ran.err
    assert "Spark" not in ran.err


def test_keys_are_given_by_name_or_in_their_order() -> None:
    assert _keys(["ann", "/shop"]) == ["ann", "/shop"]
    assert _keys(["user=ann", "url=/shop?a=b"]) == {"user": "ann", "url": "/shop?a=b"}
    with pytest.raises(HeadraceError, match="some --key have a name and some have none"):
        _keys(["user=ann", "/shop"])


@pytest.mark.parametrize(
    ("name", "kept", "shown"),
    [
        ("start", 1_772_359_205_000_000, "2026-03-01T10:00:05.000Z"),
        ("due_us", 2**63 - 1, "never"),
        ("end", -(2**63), "-9223372036854775808"),
        ("n", 1_772_359_205_000_000, 1_772_359_205_000_000),
        ("n", None, None),
        ("url", "/shop", "/shop"),
        ("seen", b"\x00\xff", "AP8="),
        ("seen", list(range(100)), str(list(range(100)))[:79] + "…"),
    ],
)
def test_values_are_shown_so_that_a_person_can_read_them(name: str, kept: object, shown: object) -> None:
    assert _cell(name, kept) == shown
