"""Jobs: their output, restarts, failures, stops and reports."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from headrace.pipeline import Job, read_topic
from headrace.pipeline.errors import BadJob, BadSink, JobFailed
from headrace.pipeline.launch import Launch
from headrace.pipeline.report.progress import JOBS_TOPIC
from headrace.pipeline.report.registry import JobState, Registry
from headrace.pipeline.run.launched import launching
from headrace.pipeline.run.supervisor import RunningJob
from headrace.pipeline.spark.session import data_dir
from headrace.queue.dead_letters import DeadLetters
from headrace.queue.message import MessageId
from tests.pipeline.failing_sink import FailingJournal, Trouble
from tests.pipeline.journal_sink import Journal, rows_in

pytestmark = pytest.mark.timeout(300)

WAIT_S = 250.0
SCHEMA = "user STRING, n INT"
Send = Callable[..., None]


def orders(*numbers: int) -> list[dict[str, Any]]:
    return [{"user": f"u{number % 3}", "n": number} for number in numbers]


def read(spark: SparkSession, topic: str) -> DataFrame:
    return read_topic(spark, topic, schema=SCHEMA).select("user", "n")


def drain(name: str, rows: DataFrame, sink: Any, **options: Any) -> RunningJob:
    running = Job(name, rows, sink, mode="batch", **options).start()
    assert running.wait(WAIT_S)
    return running


def eventually(what: Callable[[], Any]) -> Any:
    deadline_s = time.monotonic() + WAIT_S
    while not (found := what()):
        assert time.monotonic() < deadline_s, "it does not happen"
        time.sleep(0.1)
    return found


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.db")


@pytest.fixture(autouse=True)
def quick_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_PIPELINE_RESTART_BACKOFF_S", "0")


def test_job_continues_from_its_checkpoint(
    spark: SparkSession, topic: str, send: Send, journal: Journal, name: str
) -> None:
    send(topic, *orders(1, 2, 3))
    drain(name, read(spark, topic), journal)
    assert rows_in(journal.path) == orders(1, 2, 3)
    send(topic, *orders(4, 5))
    status = drain(name, read(spark, topic), journal).status()
    assert (status.rows_in, status.rows_out, status.batch_id) == (2, 2, 1)
    assert rows_in(journal.path) == orders(1, 2, 3, 4, 5)


def test_job_ends_at_the_given_offsets_and_the_next_start_continues_behind_them(
    spark: SparkSession, topic: str, send: Send, journal: Journal, name: str
) -> None:
    send(topic, *orders(1))
    drain(name, read(spark, topic), journal)
    send(topic, *orders(2, 3, 4))
    until = (f'{{"{topic}":{{"0":3}}}}',)
    for _ in range(2):
        status = drain(name, read(spark, topic), journal, until=until).status()
        assert status.state is JobState.DONE
        assert rows_in(journal.path) == orders(1, 2, 3)
    drain(name, read(spark, topic), journal)
    assert rows_in(journal.path) == orders(1, 2, 3, 4)


def test_running_job_writes_new_records_and_drains_when_it_is_stopped(
    spark: SparkSession, topic: str, send: Send, journal: Journal, name: str
) -> None:
    running = Job(name, read(spark, topic), journal).start()
    send(topic, *orders(1))
    eventually(lambda: rows_in(journal.path) == orders(1))
    Registry(data_dir()).request_stop(name)
    assert running.wait(WAIT_S)
    assert running.status().state is JobState.STOPPED
    checkpoint = Registry(data_dir()).folder(name).checkpoint()
    # The first batch is empty if it was planned before the record came.
    assert checkpoint.committed_batch() == checkpoint.planned_batch() in (0, 1)
    assert Registry(data_dir()).read(name) == running.status()


def test_job_that_runs_cannot_be_started_again(
    spark: SparkSession, topic: str, journal: Journal, name: str
) -> None:
    running = Job(name, read(spark, topic), journal).start()
    try:
        with pytest.raises(BadJob, match="runs already"):
            Job(name, read(spark, topic), journal).start()
    finally:
        running.stop()


def test_failed_batch_is_retried_and_written_once(
    spark: SparkSession, topic: str, send: Send, journal: Journal, name: str
) -> None:
    trouble = Trouble(failures_left=2)
    send(topic, *orders(1, 2))
    running = drain(name, read(spark, topic), FailingJournal(journal, trouble))
    assert rows_in(journal.path) == orders(1, 2)
    assert (running.status().restarts, trouble.failures) == (2, 2)
    assert running.status().state is JobState.DONE


def test_job_fails_after_the_maximum_of_restarts_and_can_be_started_again(
    spark: SparkSession, topic: str, send: Send, journal: Journal, name: str
) -> None:
    trouble = Trouble(failures_left=3)
    send(topic, *orders(1, 2))
    running = Job(
        name, read(spark, topic), FailingJournal(journal, trouble), mode="batch", restarts_max=2
    ).start()
    with pytest.raises(JobFailed, match="the journal is unavailable"):
        running.wait(WAIT_S)
    kept = Registry(data_dir()).read(name)
    assert (kept.state, kept.restarts) == (JobState.FAILED, 2)
    assert "the journal is unavailable" in kept.error
    drain(name, read(spark, topic), FailingJournal(journal, trouble))
    assert rows_in(journal.path) == orders(1, 2)


def test_wrong_sink_is_raised_by_the_start(
    spark: SparkSession, topic: str, journal: Journal, name: str
) -> None:
    class Wrong(Journal):
        def open(self, job: str, schema: Any) -> Any:
            raise BadSink("there is no column total", hint="add it")

    with pytest.raises(BadSink, match="no column total"):
        Job(name, read(spark, topic), Wrong(journal.path)).start()
    assert Registry(data_dir()).read(name).state is JobState.FAILED


def test_changed_state_is_rejected_with_the_step_and_a_remedy(
    spark: SparkSession, topic: str, send: Send, tmp_path: Path, name: str
) -> None:
    send(topic, *orders(1, 2, 3, 4))
    by_user = Journal(tmp_path / "by-user.db", key="user")
    drain(name, read(spark, topic).groupBy("user").count(), by_user)
    with pytest.raises(BadJob, match=r"another plan.*Aggregate \[n\].*") as rejected:
        drain(name, read(spark, topic).groupBy("n").count(), by_user)
    assert "Aggregate [user]" in rejected.value.message
    assert f"headrace job reset {name}" in rejected.value.hint
    assert "--rebuild" in rejected.value.hint
    with pytest.raises(BadJob, match=r"another plan.*topic other"):
        drain(name, read(spark, "other").groupBy("user").count(), by_user)
    failed = Registry(data_dir()).read(name)
    assert (failed.state, failed.batch_id, failed.state_rows) == (JobState.FAILED, 0, 3)
    assert failed.checkpoint == Registry(data_dir()).checkpoint(name).identity()


def test_changed_filter_is_noted_and_applies_from_the_next_batch_on(
    spark: SparkSession, topic: str, send: Send, journal: Journal, name: str
) -> None:
    send(topic, *orders(1, 2))
    drain(name, read(spark, topic).where("n > 0"), journal)
    send(topic, *orders(3, 4))
    running = drain(name, read(spark, topic).where("n > 3"), journal)
    assert rows_in(journal.path) == orders(1, 2, 4)
    (note,) = running.status().notes
    assert "n > 3" in note


def test_bad_record_becomes_a_dead_letter_and_the_job_continues(
    spark: SparkSession, topic: str, send: Send, journal: Journal, name: str, bootstrap: str
) -> None:
    send(topic, *orders(1), b"{poison", *orders(2))
    running = drain(name, read(spark, topic), journal)
    assert rows_in(journal.path) == orders(1, 2)
    assert (running.status().bad_rows, running.status().dead_letters) == (1, 1)
    (letter,) = consume(bootstrap, f"dlq.{name}", 1)
    assert letter.value() == b"{poison"
    assert dict(letter.headers())["__dlq.errors.group"] == name.encode()


def test_bad_record_of_two_jobs_is_redriven_once(
    spark: SparkSession, topic: str, send: Send, journal: Journal, name: str, tmp_path: Path, bootstrap: str
) -> None:
    send(topic, b"{poison")
    drain(name, read(spark, topic), journal)
    other = drain(f"{name}-other", read(spark, topic), Journal(tmp_path / "other.db"))
    assert other.status().dead_letter_topics == (f"dlq.{name}-other",)
    letters, of_other = (DeadLetters(job, bootstrap=bootstrap) for job in (name, f"{name}-other"))
    (letter,) = letters.read()
    assert letter.original == MessageId(topic, 0, 0)
    assert letter.reason.startswith("not JSON")
    (of_same_record,) = of_other.read()
    assert of_same_record.record == letter.record is not None
    assert letters.redrive().redriven == 1
    assert [message.value() for message in consume(bootstrap, topic, 2)] == [b"{poison", b"{poison"]
    assert (list(letters.read()), list(of_other.read())) == ([], [])
    assert of_other.redrive().redriven == 0


def test_bad_record_of_rows_joined_or_united_with_themselves_is_one_dead_letter(
    spark: SparkSession, topic: str, send: Send, journal: Journal, name: str, tmp_path: Path
) -> None:
    send(topic, *orders(1), b"{poison", *orders(2))
    rows = read(spark, topic)
    joined = rows.join(rows.withColumnRenamed("user", "other"), "n")
    assert drain(f"{name}-joined", joined, journal).status().dead_letters == 1
    assert [row["n"] for row in rows_in(journal.path)] == [1, 2]
    united = Journal(tmp_path / "united.db")
    assert drain(f"{name}-united", rows.union(rows), united).status().dead_letters == 1
    assert [row["n"] for row in rows_in(united.path)] == [1, 1, 2, 2]


def test_row_that_the_sink_rejects_becomes_a_dead_letter_and_the_job_continues(
    spark: SparkSession, topic: str, send: Send, tmp_path: Path, name: str, bootstrap: str
) -> None:
    send(topic, *orders(1, 2, 3))
    running = drain(name, read(spark, topic), Journal(tmp_path / "journal.db", rejects="'n': 2"))
    assert rows_in(tmp_path / "journal.db") == orders(1, 3)
    assert running.status().dead_letters == 1
    (letter,) = consume(bootstrap, f"dlq.{name}", 1)
    assert json.loads(letter.value()) == orders(2)[0]


def test_status_is_published_to_a_topic_and_offsets_are_committed_for_a_group(
    spark: SparkSession, topic: str, send: Send, journal: Journal, name: str, bootstrap: str
) -> None:
    send(topic, *orders(1, 2, 3))
    drain(name, read(spark, topic), journal)
    # Reports are not waited for, even at the end.
    eventually(lambda: [each for each in records_of(name, bootstrap) if each["state"] == "done"])
    records = records_of(name, bootstrap)
    assert [each["state"] for each in records if each["event"] == "state"] == ["starting", "running", "done"]
    (batch,) = [each for each in records if each["event"] == "batch"]
    assert (batch["batch_id"], batch["rows_in"], batch["lag"], batch["sources"]) == (
        0,
        3,
        0,
        [f"topic {topic}"],
    )
    assert batch["durations_ms"]["addBatch"] > 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"headrace-job-{name}"})
    place = TopicPartition(topic, 0)
    eventually(lambda: consumer.committed([place], timeout=WAIT_S)[0].offset == 3)
    consumer.close()


def test_launch_once_drains_a_chain_in_its_order(
    spark: SparkSession, topic: str, send: Send, tmp_path: Path, name: str
) -> None:
    from headrace.pipeline.sinks import Topic

    send(topic, *orders(1, 2, 3, 4))
    with launching(Launch(once=True)) as launched:
        Job(f"{name}-first", read(spark, topic).where("n % 2 = 0"), Topic(f"{name}-even", key="user")).start()
        Job(f"{name}-second", read(spark, f"{name}-even"), Journal(tmp_path / "even.db")).start()
        launched.wait()
    assert rows_in(tmp_path / "even.db") == orders(2, 4)
    assert [each.name for each in launched.started] == [f"{name}-first", f"{name}-second"]


def test_launch_to_explain_only_records(spark: SparkSession, topic: str, journal: Journal, name: str) -> None:
    with launching(Launch(explain=True)) as launched:
        Job(name, read(spark, topic).groupBy("user").count(), journal).start().wait(WAIT_S)
    (recorded,) = launched.recorded
    assert (recorded.name, recorded.reads, recorded.writes) == (
        name,
        (f"topic {topic}",),
        "journal journal.db",
    )
    assert recorded.dead_letters == (f"topic dlq.{name}",)
    assert recorded.output_mode == "update"
    assert recorded.steps[0] == f"read topic {topic}"
    assert recorded.steps[-1] == "aggregate by user: user, count(1) AS count"
    assert launched.started == []
    assert not journal.path.exists()


def test_notebook_shows_a_job_as_its_graph(
    spark: SparkSession, topic: str, journal: Journal, name: str
) -> None:
    bundle = Job(name, read(spark, topic), journal)._repr_mimebundle_(include=None, exclude=None)

    assert bundle["text/plain"].splitlines()[:2] == [
        f"topic {topic}",
        f"└─▶ job {name}: micro-batch, {journal.guarantee}",
    ]
    flowchart = bundle["text/vnd.mermaid"]
    assert f'(["{topic}<br/>topic"])' in flowchart
    assert f'["{name}<br/>job, micro-batch, ' in flowchart
    assert bundle["text/markdown"] == f"```mermaid\n{flowchart}```"


def test_output_mode_follows_what_is_grouped_by(
    spark: SparkSession, topic: str, journal: Journal, name: str
) -> None:
    """A watermark finishes windows of its time, and never a count by url."""
    clicks = read_topic(
        spark, topic, schema="user STRING, url STRING, at TIMESTAMP", event_time="at", watermark="10 minutes"
    )
    with launching(Launch(explain=True)) as launched:
        Job(name, clicks.groupBy("url").count(), journal).start()
        Job(name, clicks.groupBy(F.window("at", "1 hour"), "url").count(), journal).start()
        Job(name, clicks.where("user = 'ann'"), journal).start()
        Job(name, clicks.groupBy("url").count(), journal, output_mode="complete").start()
    assert [each.output_mode for each in launched.recorded] == ["update", "append", "append", "complete"]
    assert any("watermark on at" in step and "10 minutes" in step for step in launched.recorded[1].steps)


def test_job_in_which_spark_would_drop_rows_of_a_join_is_rejected(
    spark: SparkSession, topic: str, journal: Journal, name: str
) -> None:
    clicks = read_topic(
        spark, topic, schema="user STRING, at TIMESTAMP", event_time="at", watermark="10 minutes"
    ).select("user", "at")
    joined = clicks.transform(op.JoinWithin(clicks, on="user", after="1 hour"))
    by_hour = joined.groupBy(F.window("at", "1 hour")).count()
    with launching(Launch(explain=True)) as launched:
        with pytest.raises(BadJob, match="up to 3600 s after the watermark") as rejected:
            Job(name, by_hour, journal).start()
        assert "op.Tumbling" in rejected.value.hint
        Job(name, by_hour, journal, output_mode="complete").start()
        Job(name, joined.transform(op.Tumbling("1 hour")), journal).start()
    assert len(launched.recorded) == 2


def test_error_of_realtime_mode_names_the_obstacle_and_the_nearest_mode(
    spark: SparkSession, topic: str, journal: Journal, name: str
) -> None:
    shout = F.udf(lambda text: text.upper())
    in_python = read(spark, topic).select(shout("user").alias("user"))
    joined = read(spark, topic).join(read(spark, topic), "user")
    counted = read(spark, topic).groupBy("user").count()
    spread = read(spark, topic).repartition(4)
    for rows, operator in (
        (in_python, "Python function <lambda>"),
        (joined, "join of two streams"),
        (counted, "aggregate"),
        (spread, "repartition"),
    ):
        with pytest.raises(BadJob, match=operator) as rejected:
            Job(name, rows, journal, mode="realtime").start()
        assert "micro-batch" in rejected.value.hint
    with pytest.raises(BadJob, match=r"sink journal journal\.db"):
        Job(name, read(spark, topic), journal, mode="realtime").start()
    with pytest.raises(BadJob, match="bounded"):
        Job(name, read_topic(spark, topic, schema=SCHEMA, bounded=True), journal, mode="realtime")


def test_realtime_job_writes_rows_and_dead_letters(
    spark: SparkSession, topic: str, create_topic: Callable[..., str], send: Send, name: str, bootstrap: str
) -> None:
    from headrace.pipeline.sinks import Topic

    out = create_topic(suffix="-out")
    sink = Topic(out, key="user", guarantee="at-least-once")
    rows = read_topic(spark, topic, schema=SCHEMA, event_time="_timestamp").select("user", "n")
    running = Job(name, rows.where("n > 1"), sink, mode="realtime", interval="5 seconds").start()
    try:
        send(topic, *orders(1), b"{poison", *orders(2))
        (message,) = consume(bootstrap, out, 1)
        assert json.loads(message.value()) == orders(2)[0]
        eventually(lambda: running.status().rows_in == 3)
        (letter,) = consume(bootstrap, f"dlq.{name}", 1)
        assert letter.value() == b"{poison"
    finally:
        running.stop()
    assert running.status().state is JobState.STOPPED


def test_wrong_name_or_mode_is_rejected_by_the_declaration(
    spark: SparkSession, topic: str, journal: Journal
) -> None:
    rows = read(spark, topic)
    with pytest.raises(BadJob, match="no mode 'fast'"):
        Job("j", rows, journal, mode="fast")  # type: ignore[arg-type]
    with pytest.raises(BadJob, match="no output mode 'all'"):
        Job("j", rows, journal, output_mode="all")  # type: ignore[arg-type]
    with pytest.raises(BadJob, match="name of a job"):
        Job("a/b", rows, journal)


def consume(bootstrap: str, topic: str, count: int) -> list[Any]:
    """The first records of a topic, which may have to be created first."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "test-jobs", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Any] = []
    deadline_s = time.monotonic() + WAIT_S
    while len(found) < count:
        assert time.monotonic() < deadline_s, f"{len(found)} of {count} records are in {topic}"
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            found.append(message)
    consumer.close()
    return found


def records_of(name: str, bootstrap: str) -> list[dict[str, Any]]:
    """What was published about a job that has ended."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "test-jobs", "enable.auto.commit": False}
    )
    _, end = consumer.get_watermark_offsets(TopicPartition(JOBS_TOPIC, 0), timeout=WAIT_S)
    consumer.close()
    return [
        json.loads(each.value())
        for each in consume(bootstrap, JOBS_TOPIC, end)
        if each.key() == name.encode()
    ]
