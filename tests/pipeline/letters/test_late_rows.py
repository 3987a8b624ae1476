"""Late rows that a job writes to a topic: unchanged, all of them, each once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from confluent_kafka import Message
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from headrace import operators as op
from headrace.operators.late_rows import late_lots
from headrace.pipeline import Job, read_topic
from headrace.pipeline.errors import BadJob, SinkUnavailable
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import Topic
from headrace.pipeline.sinks.sink import Reject, SinkWriter
from headrace.plan_names import LATE_ROWS_FOLDER
from tests.operators.streams import Stream
from tests.pipeline.journal_sink import Journal, JournalWriter, rows_in
from tests.pipeline.test_job import consume, drain

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

pytestmark = pytest.mark.timeout(300)

SCHEMA = "user STRING, at TIMESTAMP, n DECIMAL(20,3)"
Send = Callable[..., None]


def event(user: str | None, second: float, n: Any = 1) -> dict[str, Any]:
    minute, second = divmod(second, 60)
    return {"user": user, "at": f"2026-03-01T10:{int(minute):02}:{second:09.6f}Z", "n": n}


def read(spark: SparkSession, topic: str) -> DataFrame:
    return read_topic(spark, topic, schema=SCHEMA, event_time="at", watermark="0 seconds")


def per_minute(topic: str, **more: Any) -> op.Tumbling:
    return op.Tumbling(
        "1 minute", by="user", aggregate={"rows": "count(*)"}, late=op.SideOutput(topic), **more
    )


def header(message: Message, name: str) -> str:
    text = dict(message.headers() or [])[f"__dlq.errors.{name}"]
    assert isinstance(text, bytes)
    return text.decode()


def test_row_that_is_late_for_a_pattern_is_written_with_its_time(
    spark: SparkSession, topic: str, send: Send, tmp_path: Path, name: str, bootstrap: str
) -> None:
    def rows() -> DataFrame:
        pairs = op.MatchRecognize(
            "PARTITION BY user ORDER BY at MEASURES COUNT(*) AS rows PATTERN (A B)",
            late=op.SideOutput(f"{name}.late"),
        )
        return read(spark, topic).transform(pairs)

    journal = Journal(tmp_path / "journal.db")
    send(topic, event("ann", 1), event("ann", 2), event("bob", 300))
    drain(name, rows(), journal)
    send(topic, event("ann", 3), event("bob", 301))
    assert drain(name, rows(), journal).status().late_rows_kept == 1
    (late,) = consume(bootstrap, f"{name}.late", 1)
    assert header(late, "offset") == "3"
    assert header(late, "message") == (
        "late: the time of the row is 2026-03-01T10:00:03.000Z, before the watermark 2026-03-01T10:05:00.000Z"
    )
    assert rows_in(journal.path) == [{"user": "ann", "rows": 2}]


def test_late_rows_are_written_to_their_topic_unchanged_and_once(
    spark: SparkSession, topic: str, send: Send, tmp_path: Path, name: str, bootstrap: str
) -> None:
    late_topic = f"{name}.late"
    journal = Journal(tmp_path / "journal.db")

    def rows() -> DataFrame:
        # The steps after the operator do not change its late rows.
        return read(spark, topic).transform(per_minute(late_topic)).where("rows > 1").select("user", "rows")

    send(topic, event("ann", 1), event("ann", 2), event("bob", 300))
    assert drain(name, rows(), journal).status().late_rows_kept == 0
    assert rows_in(journal.path) == [{"user": "ann", "rows": 2}]
    precise = b'{"user":"ann","at":"2026-03-01T10:00:03.123456Z","n":12345678901234567.891}'
    send(topic, precise, event(None, 59, None), key="k", headers=[("trace", b"7")])
    send(topic, event("bob", 301), event("cat", 600))
    status = drain(name, rows(), journal).status()
    assert (status.late_rows, status.late_rows_kept) == (2, 2)
    assert rows_in(journal.path) == [{"user": "ann", "rows": 2}, {"user": "bob", "rows": 2}]

    kept = sorted(consume(bootstrap, late_topic, 2), key=lambda each: header(each, "offset"))
    assert [header(each, "offset") for each in kept] == ["3", "4"]
    assert kept[0].value() == precise
    assert json.loads(kept[1].value()) == {"user": None, "at": "2026-03-01T10:00:59.000000Z", "n": None}
    assert {each.key() for each in kept} == {b"k"}
    assert dict(kept[0].headers())["trace"] == b"7"
    headers = {
        each: header(kept[0], each) for each in ("operator", "group", "topic", "partition", "watermark")
    }
    assert headers == {
        "operator": "tumbling",
        "group": name,
        "topic": topic,
        "partition": "0",
        "watermark": "2026-03-01T10:05:00.000Z",
    }
    assert header(kept[0], "window.start") == "2026-03-01T10:00:00.000Z"
    assert header(kept[0], "window.end") == "2026-03-01T10:01:00.000Z"
    assert "10:05:00" in header(kept[0], "message")


@dataclass(frozen=True, slots=True)
class DyingJournal(Journal):
    """Writes each batch, and fails then."""

    def open(self, job: str, schema: StructType) -> SinkWriter:
        return DyingWriter(self, job)


class DyingWriter(JournalWriter):
    deaths: ClassVar[Counter[int]] = Counter()

    def write(self, batch: DataFrame, fence: Fence, reject: Reject) -> int:
        applied = self.applied()
        is_new = applied is None or not applied.covers(fence)
        written = super().write(batch, fence, reject)
        if is_new:
            DyingWriter.deaths[fence.batch_id] += 1
            raise SinkUnavailable(f"failed after batch {fence.batch_id} with {written} rows")
        return written


def test_late_rows_of_a_batch_that_the_sink_has_already_are_still_written(
    spark: SparkSession,
    topic: str,
    send: Send,
    tmp_path: Path,
    name: str,
    bootstrap: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADRACE_PIPELINE_RESTART_BACKOFF_S", "0")
    DyingWriter.deaths.clear()
    journal = DyingJournal(tmp_path / "journal.db")
    late_topic = f"{name}.late"
    send(topic, event("ann", 1), event("bob", 300))
    drain(name, read(spark, topic).transform(per_minute(late_topic)), journal)
    send(topic, event("ann", 2), event("bob", 3), event("cat", 301))
    running = drain(name, read(spark, topic).transform(per_minute(late_topic)), journal)
    assert set(DyingWriter.deaths.values()) == {1}
    assert running.status().late_rows_kept == 2
    assert sorted(json.loads(each.value())["user"] for each in consume(bootstrap, late_topic, 2)) == [
        "ann",
        "bob",
    ]


def test_rows_after_the_allowed_lateness_are_written_to_the_topic(
    spark: SparkSession, topic: str, send: Send, tmp_path: Path, name: str, bootstrap: str
) -> None:
    corrected = op.Hopping(
        "1 minute",
        every="30 seconds",
        by="user",
        late=op.Correct(within="2 minutes", beyond=op.SideOutput()),
    )
    journal = Journal(tmp_path / "journal.db")
    send(topic, event("ann", 200), event("ann", 299))
    drain(name, read(spark, topic).transform(corrected), journal)
    # One of its two windows takes it, the other one is over for good.
    send(topic, event("ann", 125))
    status = drain(name, read(spark, topic).transform(corrected), journal).status()
    assert (status.late_rows, status.late_rows_kept) == (1, 1)
    (kept,) = consume(bootstrap, f"dlq.{name}", 1)
    assert header(kept, "window.end") == "2026-03-01T10:02:30.000Z"


@pytest.mark.slow
def test_late_rows_of_windows_of_spark_and_of_headrace_are_counted(
    spark: SparkSession, topic: str, send: Send, tmp_path: Path, name: str
) -> None:
    """Of rows that differ in key or window: Spark merges the others before it drops them."""
    ways = {
        "spark": op.Tumbling("1 minute", by="user"),
        "headrace": op.Tumbling("1 minute", by="user", late=op.DropLate(alarm_above=1)),
    }

    def run(way: str) -> int:
        rows = read(spark, topic).transform(ways[way])
        return drain(f"{name}-{way}", rows, Journal(tmp_path / f"{way}.db")).status().late_rows

    send(topic, event("ann", 1), event("bob", 300))
    assert [run(way) for way in ways] == [0, 0]
    send(topic, event("ann", 2), event("bob", 3), event("ann", 62), event("cat", 301))
    assert [run(way) for way in ways] == [3, 3]


def test_job_that_could_lose_or_mix_late_rows_is_rejected(
    spark: SparkSession, topic: str, tmp_path: Path, name: str
) -> None:
    rows = read(spark, topic).transform(per_minute("late"))
    with pytest.raises(BadJob, match="written by Spark itself") as rejected:
        Job(name, rows, Topic("out", guarantee="at-least-once")).start()
    assert "exactly-once" in rejected.value.hint
    with pytest.raises(BadJob, match="two operators that are the same"):
        Job(name, rows.union(rows), Journal(tmp_path / "journal.db")).start()


@pytest.mark.slow
def test_without_a_job_late_rows_are_left_in_a_folder_or_the_stream_fails(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path, per_minute("late", time="at"))
    with pytest.raises(StreamingQueryException, match="only a Job writes them"):
        stream.send([("ann", 1, 1), ("ann", 300, 1)])
    spark.sparkContext.setLocalProperty(LATE_ROWS_FOLDER, str(tmp_path / "late"))
    try:
        stream.send([])
        stream.send([("ann", 2, 1)])
    finally:
        spark.sparkContext.setLocalProperty(LATE_ROWS_FOLDER, None)  # type: ignore[arg-type]  # that removes it
    lots = [lot for batch in range(9) for lot in late_lots(tmp_path / "late", batch)]
    (row,) = [row for lot in lots for row in lot.rows()]
    assert json.loads(row.content)["ms"] == 1
    assert {lot.topic for lot in lots} == {"late"}


def test_another_operator_on_the_same_checkpoint_is_rejected(
    spark: SparkSession, topic: str, send: Send, tmp_path: Path, name: str
) -> None:
    send(topic, event("ann", 1), event("bob", 300))
    journal = Journal(tmp_path / "journal.db")
    late = op.Correct(within="1 hour")
    drain(name, read(spark, topic).transform(op.Tumbling("60 seconds", by="user", late=late)), journal)
    with pytest.raises(BadJob, match=r"was `tumbling: Tumbling\(.*is now `session: Session\(") as rejected:
        Job(
            name, read(spark, topic).transform(op.Session(gap="1 minute", by="user", late=late)), journal
        ).start()
    assert f"headrace job reset {name}" in rejected.value.hint
    with pytest.raises(BadJob, match=r"by=\('user', 'n'\)"):
        Job(
            name, read(spark, topic).transform(op.Tumbling("1 minute", by=["user", "n"], late=late)), journal
        ).start()
    # The same operator in another notation, and changes that do not change its state.
    longer = op.Tumbling("1 minute", by="user", late=op.Correct(within="2 hours"))
    assert drain(name, read(spark, topic).transform(longer), journal).status().state == "done"


def test_query_that_can_not_be_parsed_is_a_dead_letter_and_the_others_match(
    spark: SparkSession, topic: str, create_topic: Any, send: Send, tmp_path: Path, name: str, bootstrap: str
) -> None:
    """The queries are a topic, with tombstones. Its records are read beside the documents."""
    searches = create_topic(suffix=".searches")
    journal = Journal(tmp_path / "journal.db")

    def rows() -> DataFrame:
        found = read(spark, topic).transform(
            op.SearchQueries(searches, text="user", key="search", as_of="latest", fragments=0, score=False)
        )
        return found.select("user", "search")

    send(searches, {"query": "ann OR bob"}, key="both")
    send(searches, {"query": "cat AND"}, key="bad", headers=[("trace", b"7")])
    send(searches, b"not json", key="worse")
    send(searches, {"query": "bob"}, key="bob")
    send(topic, event("ann", 1), event("bob", 2), event("cat", 3))
    drain(name, rows(), journal)
    first = [
        {"user": "ann", "search": "both"},
        {"user": "bob", "search": "bob"},
        {"user": "bob", "search": "both"},
    ]
    assert sorted(rows_in(journal.path), key=str) == sorted(first, key=str)
    send(searches, None, key="both")
    send(searches, {"query": "cat"}, key="bad")
    send(topic, event("bob", 4), event("cat", 5))
    drain(name, rows(), journal)
    second = [{"user": "bob", "search": "bob"}, {"user": "cat", "search": "bad"}]
    assert sorted(rows_in(journal.path), key=str) == sorted([*first, *second], key=str)

    bad, worse = sorted(consume(bootstrap, f"dlq.{name}", 2), key=lambda each: header(each, "offset"))
    assert bad.key() == b"bad"
    assert json.loads(bad.value()) == {"search": "bad", "query": "cat AND", "value": '{"query": "cat AND"}'}
    assert header(bad, "message").startswith("bad query 'bad': position 7: unexpected end of the query")
    assert (header(bad, "operator"), header(bad, "topic"), header(bad, "group")) == ("search", searches, name)
    assert dict(bad.headers())["trace"] == b"7"
    assert header(worse, "message") == "bad query 'worse': it has no query string"
