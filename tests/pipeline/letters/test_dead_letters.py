"""What could not be parsed is kept: as it was, where it was, why, and once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.dead_letters import GROUP_HEADER, REASON_HEADER, TRUNCATED_HEADER
from headrace.pipeline import Job, read_topic
from headrace.pipeline.fence import Fence
from headrace.pipeline.graph import plan
from headrace.pipeline.letters.dead_letters import DeadLetters, SourceBatch, cut_to_fit
from headrace.pipeline.sinks.sink import RefusedRow
from headrace.pipeline.sinks.transactional_batch import OutgoingMessage
from headrace.pipeline.source.spec import SourceSpec
from headrace.testing.apache_kafka import ApacheKafka
from tests.compatibility.topic_contents import read_committed, write
from tests.pipeline.conftest import CreateTopic
from tests.pipeline.journal_sink import Journal

pytestmark = pytest.mark.timeout(300)

CLICK = "user STRING NOT NULL, at TIMESTAMP"

Send = Callable[..., None]


def letters_in(bootstrap: str, topic: str) -> list[Any]:
    return read_committed(bootstrap, topic)


def error_headers(letter: Any) -> dict[str, str]:
    return {
        name.removeprefix("__dlq.errors."): text.decode()
        for name, text in letter.headers()
        if name.startswith("__dlq.errors.")
    }


def streaming_spec(spark: SparkSession, topic: Any, **arguments: Any) -> SourceSpec:
    (source,) = plan.read(read_topic(spark, topic, schema=CLICK, **arguments)).sources
    assert source.spec is not None
    return source.spec


def fence(batch_id: int, *, checkpoint: str = "first") -> Fence:
    return Fence(job="job", checkpoint=checkpoint, batch_id=batch_id)


def source_batch(spec: SourceSpec, topic: str, start: int, end: int) -> SourceBatch:
    texts = [json.dumps({topic: {"0": offset}}) for offset in (start, end)]
    return SourceBatch(spec=spec, start=texts[0], end=texts[1])


@pytest.fixture
def letters(bootstrap: str, name: str) -> Any:
    made = DeadLetters(name, bootstrap=bootstrap)
    yield made
    made.close()


def test_a_letter_has_the_records_own_bytes_where_it_was_and_why(
    spark: SparkSession, bootstrap: str, topic: str, name: str, letters: DeadLetters
) -> None:
    bad = {
        "value": b'{"user": "ann", "at": "yesterday"}',
        "key": b"\xff\x00",
        "headers": [("trace", b"\x01\xff"), (REASON_HEADER, b"how it died before")],
        "timestamp": 1_000,
    }
    write(bootstrap, topic, [{"value": b'{"user": "ann"}'}, bad, {"value": b"{"}])
    spec = streaming_spec(spark, topic)

    assert letters.of_sources(spark, [source_batch(spec, topic, 0, 2)], fence(0)) == 1

    (letter,) = letters_in(bootstrap, f"dlq.{name}")
    assert (letter.key(), letter.value()) == (bad["key"], bad["value"])
    assert letter.headers()[0] == ("trace", b"\x01\xff")
    assert error_headers(letter) == {
        "topic": topic,
        "partition": "0",
        "offset": "1",
        "timestamp": "1970-01-01T00:00:01.000",
        "group": name,
        "message": "field at: 'yesterday' is not a TIMESTAMP",
    }


def test_a_batch_that_is_run_again_writes_no_letter_twice(
    spark: SparkSession, bootstrap: str, topic: str, name: str, send: Send, letters: DeadLetters
) -> None:
    send(topic, b"1 {", b"2 {", b"3 {")
    spec = streaming_spec(spark, topic)
    first, second = source_batch(spec, topic, 0, 2), source_batch(spec, topic, 2, 3)

    assert letters.of_sources(spark, [first], fence(0)) == 2
    letters.close()  # as after a crash
    assert DeadLetters(name, bootstrap=bootstrap).of_sources(spark, [first], fence(0)) == 0
    again = DeadLetters(name, bootstrap=bootstrap)
    assert again.of_sources(spark, [second], fence(1)) == 1
    again.close()
    assert [letter.value() for letter in letters_in(bootstrap, f"dlq.{name}")] == [b"1 {", b"2 {", b"3 {"]


def test_letters_of_all_topics_go_to_that_of_the_job_unless_the_source_names_another(
    spark: SparkSession,
    bootstrap: str,
    create_topic: CreateTopic,
    name: str,
    send: Send,
    letters: DeadLetters,
) -> None:
    one, two = create_topic(suffix=".one"), create_topic(suffix=".two")
    send(one, b"from one")
    send(two, b"from two")
    of_job = streaming_spec(spark, [one, two])
    named = streaming_spec(spark, [one, two], dead_letters=f"{name}.all")
    end = json.dumps({one: {"0": 1}, two: {"0": 1}})

    # Two sources that find the same record bad make one letter of it.
    same = [SourceBatch(spec=named, start="-", end=end)] * 2
    assert letters.of_sources(spark, [SourceBatch(spec=of_job, start="-", end=end)], fence(0)) == 2
    assert letters.of_sources(spark, same, fence(0)) == 2

    for topic in (f"dlq.{name}", f"{name}.all"):
        assert sorted(letter.value() for letter in letters_in(bootstrap, topic)) == [b"from one", b"from two"]


def test_rows_that_a_sink_refuses_are_letters_too(bootstrap: str, name: str, letters: DeadLetters) -> None:
    headers = (("trace", b"\x01"), ("none", None), (GROUP_HEADER, b"another"))
    rows = [
        RefusedRow(row={"user": "ann", "n": 1, "raw": b"\xff"}, reason="n is taken", headers=headers),
    ]

    assert [letters.of_refused(rows, fence(0)) for _ in range(2)] == [1, 1], "two lots of one batch"
    letters.close()
    again = DeadLetters(name, bootstrap=bootstrap)
    assert [again.of_refused(rows, fence(0)) for _ in range(2)] == [0, 0], "the same batch once more"
    again.close()

    first, second = letters_in(bootstrap, f"dlq.{name}")
    assert json.loads(first.value()) == {"user": "ann", "n": 1, "raw": "/w=="}
    assert error_headers(second) == {"group": name, "message": "n is taken"}
    assert second.headers()[:2] == [("trace", b"\x01"), ("none", None)]


def test_a_letter_too_large_is_cut_and_loses_its_headers_only_if_they_alone_are_too_large() -> None:
    error = (REASON_HEADER, b"too large")
    small = OutgoingMessage(value=b"v" * 10, headers=(("trace", b"h" * 10), error))
    assert cut_to_fit(small, 2_000) == small
    large = cut_to_fit(OutgoingMessage(value=b"v" * 3_000, headers=(("trace", b"h" * 10), error)), 2_000)
    assert large.headers == (("trace", b"h" * 10), error, (TRUNCATED_HEADER, b"3000"))
    assert 900 < len(large.value or b"") < 1_000
    wide = cut_to_fit(OutgoingMessage(value=None, headers=(("trace", b"h" * 3_000), error)), 2_000)
    assert wide == OutgoingMessage(value=None, headers=(error, (TRUNCATED_HEADER, b"0")))


def test_a_job_goes_on_past_bad_records_and_counts_them(
    spark: SparkSession, apache_kafka: ApacheKafka, name: str, tmp_path: Path
) -> None:
    """On Apache Kafka, whose transactions the letters are written in."""
    good = [{"user": f"u{number}"} for number in range(3)]
    values = [
        json.dumps(good[0]).encode(),
        b"poison",
        json.dumps(good[1]).encode(),
        b"{}",
        json.dumps(good[2]).encode(),
    ]
    write(apache_kafka.bootstrap, name, [{"value": value} for value in values])
    rows = read_topic(spark, name, schema=CLICK, bootstrap=apache_kafka.bootstrap)

    job = Job(name, rows.select("user"), Journal(tmp_path / "journal.db"), mode="batch").start()
    assert job.wait(250)

    status = job.status()
    assert (status.bad_rows, status.dead_letters) == (2, 2)
    reasons = [
        error_headers(letter)["message"] for letter in letters_in(apache_kafka.bootstrap, f"dlq.{name}")
    ]
    assert reasons == ["not JSON: Expecting value at character 0", "field user is missing"]
