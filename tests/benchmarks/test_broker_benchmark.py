"""The benchmark works on both brokers and writes its table and its JSON. No figure is judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.broker.__main__ import SUBJECTS
from benchmarks.broker.subjects.ceiling import Ceiling
from benchmarks.measurements import Goal, Measurements, Row, Sample, Side, Unit
from benchmarks.report import cells, update_docs
from benchmarks.runner import DOCS_PAGE
from headrace.testing.requirements import require_java

REPOSITORY = Path(__file__).parents[2]
RUN_TIMEOUT_S = 240


@pytest.mark.slow
@pytest.mark.timeout(RUN_TIMEOUT_S + 30)
def test_quick_run_prints_a_table_and_writes_json_for_both_brokers(tmp_path: Path) -> None:
    require_java()
    results = tmp_path / "broker.json"
    options = ["--quick", "--only", "produce-os", "--rows", "*-confluent-100"]
    command = [sys.executable, "-m", "benchmarks.broker", *options]
    command += ["--json", str(results), "--workplace", str(tmp_path)]
    run = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )

    assert run.returncode == 0, run.stdout + run.stderr
    assert "produce 100 B, confluent-kafka" in run.stdout
    (row,) = json.loads(results.read_text())["rows"]
    assert row["row"] == "produce-os-confluent-100"
    for side in ("headrace", "kafka"):
        assert row["sides"][side]["median"] > 0
        assert len(row["sides"][side]["samples"]) == 1
    assert row["ratio_to_kafka"] == pytest.approx(
        row["sides"]["headrace"]["median"] / row["sides"]["kafka"]["median"]
    )
    assert list(tmp_path.iterdir()) == [results], "the brokers' data is removed"


def test_goal_against_kafka_compares_medians() -> None:
    row = Row(
        key="r",
        what="r",
        unit=Unit.RECORDS_PER_S,
        goals=(Goal(at_least=1.2, aim=1.5, against_kafka=True),),
    )
    measurements = Measurements()
    for ours, theirs in ((130, 100), (1000, 1), (120, 100)):
        measurements.add("r", Side.HEADRACE, Sample(value=ours))
        measurements.add("r", Side.KAFKA, Sample(value=theirs))

    (result,) = measurements.results(row)

    assert result.figure == pytest.approx(1.3)
    assert result.verdict == "reached"


def test_goal_against_the_bare_peer_is_beside_its_figures() -> None:
    ceiling = Ceiling()
    row = ceiling.rows[0]
    measurements = Measurements()
    measurements.add(row.key, Side.HEADRACE, Sample(value=500.0))
    measurements.add(row.key, Side.BARE, Sample(value=900.0))
    texts = cells(ceiling, row, measurements)
    assert "bare: 900; ≥ 0.5 × bare" in texts
    assert "reached (0.56)" in texts


@pytest.mark.parametrize(
    ("goal", "figure", "verdict"),
    [
        (Goal(at_least=1.2, aim=1.5), 1.19, "not reached"),
        (Goal(at_least=1.2, aim=1.5), 1.5, "aim reached"),
        (Goal(at_most=0.15), 0.15, "reached"),
        (Goal(at_most=0.15), 0.16, "not reached"),
    ],
)
def test_goal_is_reached_or_missed(goal: Goal, figure: float, verdict: str) -> None:
    assert goal.verdict(figure) == verdict


def test_goal_without_a_peer_is_skipped() -> None:
    row = Row(key="r", what="r", unit=Unit.SECONDS, goals=(Goal(at_most=1.0, against_kafka=True),))
    measurements = Measurements()
    measurements.add("r", Side.HEADRACE, Sample(value=0.1))

    assert measurements.results(row) == []


def test_docs_page_has_a_place_for_every_subject_and_keeps_its_text(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text(DOCS_PAGE.read_text())
    subjects = [subject() for subject in SUBJECTS]
    measurements = Measurements()
    for subject in subjects:
        measurements.add(subject.rows[0].key, Side.HEADRACE, Sample(value=123.0))

    for _ in range(2):  # the second writing replaces the first
        update_docs(page, subjects, measurements, {"cores": "2"}, "Measured on a day.")

    text = page.read_text()
    assert text.count("Measured on a day.") == len(subjects)
    assert text.count("- cores: 2") == 1
    assert "## How it is measured" in text
