"""The benchmark of queues works on all sides and writes its table and its JSON. No figure is judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.measurements import Goal, Measurements, Row, Sample, Side, Unit
from benchmarks.queue.__main__ import SUBJECTS
from benchmarks.queue.rabbitmq import is_installed
from benchmarks.report import update_docs
from benchmarks.runner import DOCS_PAGE
from headrace.testing.requirements import require_java

REPOSITORY = Path(__file__).parents[2]
RUN_TIMEOUT_S = 300


def require_rabbitmq() -> None:
    """Skipped if it is missing, also in CI: it is a peer to measure, not a part of Headrace."""
    if not is_installed():
        pytest.skip("RabbitMQ is not installed (Debian: apt-get install rabbitmq-server)")


@pytest.mark.slow
@pytest.mark.timeout(RUN_TIMEOUT_S + 30)
def test_quick_run_measures_messages_on_every_side(tmp_path: Path) -> None:
    require_java()
    require_rabbitmq()
    results = tmp_path / "queue.json"
    command = [sys.executable, "-m", "benchmarks.queue", "--quick", "--only", "queue-messages"]
    command += ["--rows", "*-fsync-1", "--json", str(results), "--workplace", str(tmp_path)]
    run = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )

    assert run.returncode == 0, run.stdout + run.stderr
    (row,) = json.loads(results.read_text())["rows"]
    assert row["row"] == "messages-fsync-1"
    assert set(row["sides"]) == {"headrace", "kafka", "rabbitmq-classic", "rabbitmq-quorum"}
    assert all(side["median"] > 0 for side in row["sides"].values())
    assert list(tmp_path.iterdir()) == [results], "the brokers' data is removed"


@pytest.mark.slow
@pytest.mark.timeout(RUN_TIMEOUT_S + 30)
def test_quick_run_measures_transactions_and_locks_of_headrace(tmp_path: Path) -> None:
    results = tmp_path / "queue.json"
    command = [sys.executable, "-m", "benchmarks.queue", "--quick", "--sides", "headrace"]
    command += ["--only", "queue-transactions,queue-locks"]
    command += ["--json", str(results), "--workplace", str(tmp_path)]
    run = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )

    assert run.returncode == 0, run.stdout + run.stderr
    rows = {row["row"]: row["sides"]["headrace"]["median"] for row in json.loads(results.read_text())["rows"]}
    assert set(rows) == {"transactions-fsync", "transactions-os", "locks-in-batches", "locks-single"}
    assert rows["transactions-os"] > 0


@pytest.mark.slow
@pytest.mark.timeout(RUN_TIMEOUT_S + 30)
def test_quick_run_measures_ordered_queues_and_plain_groups(tmp_path: Path) -> None:
    results = tmp_path / "queue.json"
    command = [sys.executable, "-m", "benchmarks.queue", "--quick", "--only", "queue-ordered"]
    command += ["--json", str(results), "--workplace", str(tmp_path)]
    run = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )

    assert run.returncode == 0, run.stdout + run.stderr
    rows = {row["row"]: row["sides"]["headrace"]["median"] for row in json.loads(results.read_text())["rows"]}
    assert {"plain-1-10000", "ordered-1-10000", "ordered-4-10000", "ordered-1-100"} <= set(rows)
    assert all(median > 0 for median in rows.values())


@pytest.mark.parametrize(("unit", "ratio"), [(Unit.MESSAGES_PER_S, 0.5), (Unit.MILLISECONDS, 2.0)])
def test_best_peer_has_the_highest_rate_or_the_lowest_latency(unit: Unit, ratio: float) -> None:
    row = Row(key="r", what="r", unit=unit, goals=(Goal(at_least=1.0, against_best=True),))
    measurements = Measurements()
    for side, value in (
        (Side.HEADRACE, 20),
        (Side.KAFKA, 10),
        (Side.RABBITMQ_CLASSIC, 40),
        (Side.BARE, 1000),
    ):
        measurements.add("r", side, Sample(value=value))

    assert measurements.results(row)[0].figure == pytest.approx(ratio)


def test_docs_page_has_a_place_for_every_subject(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text(DOCS_PAGE.read_text())
    measurements = Measurements()
    subjects = [subject() for subject in SUBJECTS]
    for subject in subjects:
        measurements.add(subject.rows[0].key, Side.HEADRACE, Sample(value=123.0))

    update_docs(page, subjects, measurements, {"cores": "2"}, "Measured on a day.")

    assert page.read_text().count("Measured on a day.") == len(subjects)


def test_row_keys_are_unique_and_goals_name_rows_that_exist() -> None:
    rows = [row for subject in SUBJECTS for row in subject().rows]
    keys = {row.key for row in rows}

    assert len(keys) == len(rows)
    assert {goal.against_row for row in rows for goal in row.goals if goal.against_row} <= keys
