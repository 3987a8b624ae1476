"""Files as DataFrames, and as streams in a job that is killed."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any, Literal

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.pipeline import Job, JobFailed, RunningJob, launch, read_files
from headrace.pipeline.errors import BadJob, BadSource
from headrace.pipeline.graph import plan
from headrace.pipeline.launch import Launch
from headrace.pipeline.report.registry import Registry
from headrace.pipeline.source.bad_counts import bad_count
from headrace.pipeline.source.files_spec import FileFormat, FilesSpec
from headrace.pipeline.spark.session import data_dir
from headrace.plan_names import EVENT_TIME
from headrace.testing.faults import abort_at
from tests.compatibility.topic_contents import read_committed
from tests.pipeline.journal_sink import Journal, rows_in

pytestmark = pytest.mark.timeout(300)

CLICK = "user STRING NOT NULL, visits INT, at TIMESTAMP"
CSV = "user,visits,at\nann,1,2026-01-01T00:00:00Z\n"
ROWS: dict[FileFormat, str] = {
    "csv": CSV + 'bob,x,2026-01-01T00:00:00Z\n"c,d",3,\n,4,2026-01-01T00:00:00Z\neve\n',
    "json": '{"user": "ann", "visits": 1, "at": "2026-01-01T00:00:00Z"}\n'
    '{"user": "bob", "visits": "x"}\n{"user": "c,d", "visits": 3}\n{"visits": 4}\n{broken\n',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "incoming"
    found.mkdir()
    return found


def spec_of(rows: Any) -> FilesSpec:
    (source,) = plan.read(rows).sources
    assert source.files is not None
    return source.files


@pytest.mark.parametrize("format", ["csv", "json"])
def test_bounded_rows_of_files_without_bad_ones_whatever_columns_are_used(
    spark: SparkSession, folder: Path, format: FileFormat
) -> None:
    (folder / f"a.{format}").write_text(ROWS[format])
    rows = read_files(spark, folder, format=format, schema=CLICK, bounded=True)

    assert sorted((row["user"], row["visits"]) for row in rows.collect()) == [("ann", 1), ("c,d", 3)]
    assert rows.count() == 2
    assert [row["visits"] for row in rows.select("visits").orderBy("visits").collect()] == [1, 3]
    counted = read_files(spark, folder, format=format, schema=CLICK, bounded=True)
    counted.select("user").collect()
    assert bad_count(spec_of(counted)) == 3


def test_parquet_and_compressed_files_are_read_and_other_names_are_not(
    spark: SparkSession, folder: Path
) -> None:
    spark.range(3).selectExpr("cast(id as string) user", "id as visits").coalesce(1).write.parquet(
        str(folder / "one.parquet")
    )
    rows = read_files(
        spark, folder, format="parquet", schema="user STRING, visits BIGINT", bounded=True, recursive=True
    )
    assert rows.count() == 3

    (folder / "a.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    for name in ("b.csv.tmp", ".c.csv", "_d.csv", "e.txt"):
        (folder / name).write_text(CSV)
    found = read_files(spark, folder, format="csv", schema=CLICK, bounded=True)
    assert [Path(row["_file"]).name for row in found.collect()] == ["a.csv.gz"]
    assert found.schema["_modified"].dataType.simpleString() == "timestamp"


def test_header_with_columns_in_another_order_is_an_error_and_not_wrong_data(
    spark: SparkSession, folder: Path
) -> None:
    (folder / "a.csv").write_text("visits,user,at\n1,ann,\n")

    with pytest.raises(Exception, match="CSV header does not conform to the schema"):
        read_files(spark, folder, format="csv", schema=CLICK, bounded=True).collect()


def test_event_time_is_marked_and_a_row_without_it_is_bad(spark: SparkSession, folder: Path) -> None:
    (folder / "a.json").write_text(ROWS["json"])
    rows = read_files(spark, folder, schema=CLICK, event_time="at", bounded=True)

    assert rows.schema["at"].metadata == {EVENT_TIME: True}
    assert [row["user"] for row in rows.collect()] == ["ann"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"format": "xml"}, "is not one of files"),
        ({"path": "nowhere/"}, "there is no folder nowhere/"),
        ({"watermark": "1 hour"}, "needs an event time"),
        ({"event_time": "when"}, "is no column"),
        ({"event_time": "user"}, "is of type string"),
        ({"schema": "_file STRING"}, "also one that every row has"),
        ({"schema": None}, "needs a schema"),
    ],
)
def test_wrong_arguments_are_errors_with_the_remedy(
    spark: SparkSession, folder: Path, arguments: dict[str, Any], problem: str
) -> None:
    with pytest.raises(BadSource, match=problem) as raised:
        read_files(spark, **{"path": folder, "schema": CLICK, **arguments})
    assert raised.value.hint


def errors(letter: Any) -> dict[str, str]:
    return {
        name.removeprefix("__dlq.errors."): text.decode()
        for name, text in letter.headers()
        if name.startswith("__dlq.errors.")
    }


@pytest.mark.parametrize("format", ["csv", "json"])
@pytest.mark.parametrize("bounded", [False, True], ids=["stream", "bounded"])
def test_bad_row_is_a_dead_letter_with_file_line_and_reason(
    spark: SparkSession,
    bootstrap: str,
    name: str,
    folder: Path,
    tmp_path: Path,
    format: FileFormat,
    bounded: bool,
) -> None:
    file = folder / f"a {{b}}%20.{format}"
    file.write_text(ROWS[format])
    rows = read_files(spark, folder, format=format, schema=CLICK, bounded=bounded)
    journal = Journal(tmp_path / "journal.db")

    Job(name, rows, journal, mode="batch").start().wait()

    assert sorted(row["user"] for row in rows_in(journal.path)) == ["ann", "c,d"]
    found = {letter.value().decode(): errors(letter) for letter in read_committed(bootstrap, f"dlq.{name}")}
    assert {each["file"] for each in found.values()} == {str(file)}
    reasons = {each.get("line"): each["message"] for each in found.values()}
    assert reasons[{"csv": "3", "json": "2"}[format]] == "field visits: 'x' is not an INT"
    assert "column user is missing" in reasons.values()
    assert len(found) == 3


@pytest.mark.parametrize("point", ["before-write", "before-letters", "after-write"])
def test_each_row_is_written_once_although_a_batch_is_aborted_and_files_arrive_meanwhile(
    spark: SparkSession,
    bootstrap: str,
    name: str,
    folder: Path,
    tmp_path: Path,
    point: Literal["before-write", "before-letters", "after-write"],
) -> None:
    journal = Journal(tmp_path / "journal.db")

    def write(*numbers: int) -> None:
        for number in numbers:
            beside = folder / f".{number}.csv"
            beside.write_text(f"n\n{number}\nbad {number}\n")
            beside.rename(folder / f"{number}.csv")

    def start() -> RunningJob:
        rows = read_files(spark, folder, format="csv", schema="n INT NOT NULL")
        return Job(name, rows, journal, mode="batch", restarts_max=0).start()

    write(1, 2)
    start().wait()
    write(3, 4)
    with abort_at(point, job=name), pytest.raises(JobFailed):
        start().wait()
    write(5)
    for number in range(6, 20):  # Spark compacts its log of files after ten batches
        start().wait()
        write(number)
    start().wait()

    assert sorted(row["n"] for row in rows_in(journal.path)) == [*range(1, 20)]
    letters = [letter.value().decode() for letter in read_committed(bootstrap, f"dlq.{name}")]
    assert sorted(letters) == sorted(f"bad {number}" for number in range(1, 20))


def test_job_whose_checkpoint_is_lost_is_rejected_because_it_has_the_list_of_files(
    spark: SparkSession, name: str, folder: Path, tmp_path: Path
) -> None:
    (folder / "a.csv").write_text("n\n1\n")
    journal = Journal(tmp_path / "journal.db")
    rows = read_files(spark, folder, format="csv", schema="n INT")
    Job(name, rows, journal, mode="batch").start().wait()
    Registry(data_dir()).folder(name).path.joinpath("checkpoint").rename(tmp_path / "lost")

    with pytest.raises(BadJob, match="the list of the files that it has read"):
        Job(name, rows, journal, mode="batch").start()


def test_watermark_of_files_ends_windows_and_late_files_are_late(
    spark: SparkSession, name: str, folder: Path, tmp_path: Path
) -> None:
    journal = Journal(tmp_path / "journal.db")
    rows = read_files(spark, folder, schema="at TIMESTAMP", event_time="at", watermark="1 minute")
    counts = rows.groupBy(F.window("at", "1 hour")).count().select("count")
    for number, hour in enumerate(("00", "02", "00", "04")):
        (folder / f"{number}.json").write_text(f'{{"at": "2026-01-01T{hour}:30:00Z"}}\n')
        Job(name, counts, journal, mode="batch", output_mode="append").start().wait()

    assert [row["count"] for row in rows_in(journal.path)] == [1, 1]


def test_plan_and_status_of_a_job_name_the_files(
    spark: SparkSession, name: str, folder: Path, tmp_path: Path
) -> None:
    (folder / "a.csv").write_text("n\n1\nx\n")
    rows = read_files(spark, folder, format="csv", schema="n INT")
    job = Job(name, rows, Journal(tmp_path / "journal.db"), mode="batch")
    started = job.start()
    started.wait()

    assert started.status().sources == (f"csv files {folder}",)
    assert started.status().dead_letter_topics == (f"dlq.{name}",)
    assert (started.status().rows_out, started.status().bad_rows) == (1, 1)
    with launch.using(Launch(explain=True)):
        assert f"csv files {folder}" in str(job._repr_mimebundle_())
