"""Views of running jobs, on a terminal and in a pipe."""

from __future__ import annotations

import msgspec
import pytest

from headrace.cli.job.screen import EndLines, StateLines, bar_of, bars, summary_of, table
from headrace.pipeline.report.registry import JobState, JobStatus

STARTING = JobStatus(
    name="counts",
    state=JobState.STARTING,
    pid=1,
    mode="micro-batch",
    target="table counts",
    started_ms=1_000_000,
)
HALF = msgspec.structs.replace(
    STARTING, state=JobState.RUNNING, batch_id=4, rows_in=500_000, rows_per_s=100_000.0, lag=1_500_000
)
DONE = msgspec.structs.replace(
    HALF, state=JobState.DONE, batch_id=9, rows_in=2_000_000, lag=0, updated_ms=1_020_000
)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")


@pytest.mark.usefixtures("terminal")
def test_bar_counts_rows_done_of_rows_there_with_the_rate(capsys: pytest.CaptureFixture[str]) -> None:
    with bars() as show:
        show([STARTING])
        show([HALF])
    shown = capsys.readouterr().err

    assert "counts" in shown
    assert "500,000 of 2,000,000 rows, 100,000/s" in shown


@pytest.mark.parametrize(
    ("job", "completed", "total"),
    [
        (STARTING, 0, None),
        (HALF, 500_000, 2_000_000),
        (DONE, 2_000_000, 2_000_000),
        (msgspec.structs.replace(STARTING, state=JobState.DONE), 1, 1),
        (msgspec.structs.replace(STARTING, state=JobState.FAILED), 0, 1),
    ],
    ids=["starting", "running", "done", "done-without-rows", "failed-without-rows"],
)
def test_bar_of_a_job_that_is_done_is_full(job: JobStatus, completed: int, total: int | None) -> None:
    assert bar_of(job) == (completed, total)


def test_end_of_each_job_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    view = EndLines()
    for jobs in ([STARTING], [HALF], [DONE], [DONE]):
        view.show(jobs)

    assert capsys.readouterr().out == "job counts: done, 2,000,000 rows in 20.0 s (100,000/s)\n"


def test_ends_are_printed_in_the_order_of_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (msgspec.structs.replace(DONE, name=each) for each in ("first", "second"))
    view = EndLines()
    view.show([msgspec.structs.replace(first, state=JobState.RUNNING), second])
    assert capsys.readouterr().out == ""

    view.show([first, second])
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        "job first",
        "job second",
    ]


def test_end_of_a_job_has_its_bad_rows(capsys: pytest.CaptureFixture[str]) -> None:
    EndLines().show([msgspec.structs.replace(DONE, bad_rows=3)])

    assert capsys.readouterr().out.endswith(", 3 of them bad\n")


def test_line_is_written_when_a_state_changes_and_not_for_every_batch(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = StateLines()
    for job in (STARTING, HALF, msgspec.structs.replace(HALF, batch_id=5), DONE):
        view.show([job])

    states = [line.split()[2].strip(",") for line in capsys.readouterr().out.splitlines()]
    assert states == ["starting", "running", "done"]


@pytest.mark.usefixtures("terminal")
def test_table_shows_rate_lag_and_watermark(capsys: pytest.CaptureFixture[str]) -> None:
    watermark = "2026-11-15T10:00:00.000Z"
    with table() as show:
        show([msgspec.structs.replace(HALF, watermark=watermark)])
    shown = capsys.readouterr().out

    for words in ("counts", "running", "100,000", "1,500,000", watermark, "table counts"):
        assert words in shown


@pytest.mark.usefixtures("terminal")
def test_markup_and_escapes_in_names_are_shown_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    with table() as show:
        show([msgspec.structs.replace(HALF, name="[/x]\x1b[2J", target="[red]t")])
    shown = capsys.readouterr().out

    for words in (r"[/x]\x1b[2J", "[red]t"):
        assert words in shown


def test_failed_job_shows_the_first_line_of_its_error() -> None:
    failed = msgspec.structs.replace(HALF, state=JobState.FAILED, restarts=2, error="no such host\nat line 1")

    assert summary_of(failed).endswith("2 restarts, no such host")
