"""The benchmark of queues works on all sides and writes its table and its JSON. No figure is judged here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.measurements import Goal, Measurements, Row, Sample, Side, Unit
from benchmarks.queue.__main__ import SUBJECTS
from benchmarks.queue.rabbitmq import is_installed
from benchmarks.report import update_docs
from benchmarks.runner import DOCS_PAGE
from headrace.testing.requirements import require_java
from tests.benchmarks.quick_run import quick_run, results_file

RUN_TIMEOUT_S = 300


def require_rabbitmq() -> None:
    """Skipped if it is missing, also in CI: it is a peer to measure, not a part of Headrace."""
    if not is_installed():
        pytest.skip("RabbitMQ is not installed (Debian: apt-get install rabbitmq-server)")


def medians(rows: list[dict[str, Any]]) -> dict[str, float]:
    return {row["row"]: row["sides"]["headrace"]["median"] for row in rows}


@pytest.mark.slow
@pytest.mark.timeout(RUN_TIMEOUT_S + 30)
def test_quick_run_measures_messages_on_every_side(tmp_path: Path) -> None:
    require_java()
    require_rabbitmq()
    options = ("--only", "queue-messages", "--rows", "*-fsync-1")
    (row,) = quick_run("queue", tmp_path, *options, timeout_s=RUN_TIMEOUT_S)

    assert row["row"] == "messages-fsync-1"
    assert set(row["sides"]) == {"headrace", "kafka", "rabbitmq-classic", "rabbitmq-quorum"}
    assert all(side["median"] > 0 for side in row["sides"].values())
    assert list(tmp_path.iterdir()) == [results_file("queue", tmp_path)], "the brokers' data is removed"


@pytest.mark.slow
@pytest.mark.timeout(RUN_TIMEOUT_S + 30)
def test_quick_run_measures_transactions_and_locks_of_headrace(tmp_path: Path) -> None:
    options = ("--sides", "headrace", "--only", "queue-transactions,queue-locks")
    rows = medians(quick_run("queue", tmp_path, *options, timeout_s=RUN_TIMEOUT_S))

    assert set(rows) == {"transactions-fsync", "transactions-os", "locks-in-batches", "locks-single"}
    assert rows["transactions-os"] > 0


@pytest.mark.slow
@pytest.mark.timeout(RUN_TIMEOUT_S + 30)
def test_quick_run_measures_ordered_queues_and_plain_groups(tmp_path: Path) -> None:
    rows = medians(quick_run("queue", tmp_path, "--only", "queue-ordered", timeout_s=RUN_TIMEOUT_S))

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
