"""Dead letters: the record, its origin and the reason, written once."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.dead_letters import GROUP_HEADER, REASON_HEADER, TRUNCATED_HEADER
from headrace.pipeline import Job, read_topic
from headrace.pipeline.fence import Fence
from headrace.pipeline.graph import plan
from headrace.pipeline.graph.plan import SourceStep
from headrace.pipeline.letters.dead_letters import DeadLetters, cut_to_fit
from headrace.pipeline.sinks.sink import RejectedRow
from headrace.pipeline.sinks.transactional_batch import OutgoingMessage
from headrace.pipeline.source.offsets import HEARTBEAT_OFFSET
from headrace.testing.apache_kafka import ApacheKafka
from tests.compatibility.topic_contents import read_committed, write
from tests.pipeline.conftest import CreateTopic
from tests.pipeline.journal_sink import Journal

pytestmark = pytest.mark.timeout(300)

CLICK = "user STRING NOT NULL, at TIMESTAMP"

Send = Callable[..., None]


def error_headers(letter: Any) -> dict[str, str]:
    return {
        name.removeprefix("__dlq.errors."): text.decode()
        for name, text in letter.headers()
        if name.startswith("__dlq.errors.")
    }


def source(spark: SparkSession, topic: Any, **arguments: Any) -> SourceStep:
    (found,) = plan.read(read_topic(spark, topic, schema=CLICK, **arguments)).sources
    return found


def offsets(*topics: str, offset: int) -> str:
    return json.dumps({topic: {"0": offset} for topic in topics})


def fence(batch_id: int, starts: Sequence[str] = (), ends: Sequence[str] = ()) -> Fence:
    return Fence(job="job", checkpoint="first", batch_id=batch_id, starts=tuple(starts), ends=tuple(ends))


Open = Callable[..., DeadLetters]


@pytest.fixture
def open_letters(spark: SparkSession, bootstrap: str, name: str) -> Iterator[Open]:
    """Opens the dead letters of a job with these sources, as often as it is called."""
    with contextlib.ExitStack() as opened:

        def open_letters(*sources: SourceStep) -> DeadLetters:
            letters = DeadLetters(name, sources, spark=spark, bootstrap=bootstrap)
            opened.callback(letters.close)
            return letters

        yield open_letters


def test_dead_letter_has_the_bytes_of_its_record_and_its_origin_and_the_reason(
    spark: SparkSession, bootstrap: str, topic: str, name: str, open_letters: Open
) -> None:
    bad = {
        "value": b'{"user": "ann", "at": "yesterday"}',
        "key": b"\xff\x00",
        "headers": [("trace", b"\x01\xff"), (REASON_HEADER, b"the reason of an earlier failure")],
        "timestamp": 1_000,
    }
    write(bootstrap, topic, [{"value": b'{"user": "ann"}'}, bad, {"value": b"{"}])
    letters = open_letters(source(spark, topic))

    letters.of_replay(fence(0, [offsets(topic, offset=0)], [offsets(topic, offset=2)]))

    assert (letters.written, letters.bad_rows) == (1, 1)
    (letter,) = read_committed(bootstrap, f"dlq.{name}")
    assert (letter.key(), letter.value()) == (bad["key"], bad["value"])
    assert letter.headers()[0] == ("trace", b"\x01\xff")
    assert error_headers(letter) == {
        "topic": topic,
        "partition": "0",
        "offset": "1",
        "timestamp": "1970-01-01T00:00:01.000Z",
        "group": name,
        "message": "field at: 'yesterday' is not a TIMESTAMP",
    }


def test_batch_that_is_run_again_writes_no_dead_letter_twice(
    spark: SparkSession, bootstrap: str, topic: str, name: str, send: Send, open_letters: Open
) -> None:
    send(topic, b"1 {", b"2 {", b"3 {")
    first, second, end = (offsets(topic, offset=offset) for offset in (0, 2, 3))
    of_topic = source(spark, topic)
    written = []
    for again in (fence(0, [first], [second]), fence(0, [first], [second]), fence(1, [second], [end])):
        letters = open_letters(of_topic)
        letters.of_replay(again)
        written.append(letters.written)
        letters.close()  # as after a crash
    assert written == [2, 0, 1]
    assert [letter.value() for letter in read_committed(bootstrap, f"dlq.{name}")] == [b"1 {", b"2 {", b"3 {"]


def test_heartbeat_offsets_are_in_the_fence_and_do_not_shift_the_offsets_of_topics(
    spark: SparkSession, bootstrap: str, topic: str, name: str, send: Send, open_letters: Open
) -> None:
    send(topic, b"bad 0", b"bad 1")
    rows = read_topic(spark, topic, schema=CLICK, event_time="at", watermark="1 second", idle="5 seconds")
    sources = plan.read(rows).sources
    assert sorted(each.spec is None for each in sources) == [False, True]

    def texts(offset: int, beat_us: int) -> list[str]:
        beat = json.dumps({HEARTBEAT_OFFSET: beat_us})
        return [beat if each.spec is None else offsets(topic, offset=offset) for each in sources]

    letters = open_letters(*sources)
    letters.of_replay(fence(0, texts(0, 0), texts(1, 5_000_000)))
    letters.of_replay(fence(1, texts(1, 5_000_000), texts(2, 9_000_000)))

    assert [letter.value() for letter in read_committed(bootstrap, f"dlq.{name}")] == [b"bad 0", b"bad 1"]
    letters.close()
    applied = open_letters().batch(f"headrace-dead-letters.{name}.dlq.{name}", f"dlq.{name}").applied()
    assert applied is not None
    assert list(applied.ends) == texts(2, 9_000_000)


def test_only_sources_with_counted_bad_records_are_read_again(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, name: str, send: Send, open_letters: Open
) -> None:
    one, two = create_topic(suffix=".one"), create_topic(suffix=".two")
    send(one, b"from one")
    send(two, b"from two")
    first, second = source(spark, one), source(spark, two)
    assert second.spec is not None
    letters = open_letters(first, second)
    batch = fence(0, ["-", "-"], [offsets(one, offset=1), offsets(two, offset=1)])

    letters.of_counts({}, batch)
    assert letters.written == 0
    letters.of_counts({second.spec.bad_metric: 1}, batch)

    assert [letter.value() for letter in read_committed(bootstrap, f"dlq.{name}")] == [b"from two"]


def test_dead_letters_go_to_the_topic_of_the_job_unless_the_source_names_another(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, name: str, send: Send, open_letters: Open
) -> None:
    one, two = create_topic(suffix=".one"), create_topic(suffix=".two")
    send(one, b"from one")
    send(two, b"from two")
    named = [source(spark, [one, two], dead_letters=f"{name}.all") for _ in range(2)]
    letters = open_letters(source(spark, [one, two]), *named)

    letters.of_replay(fence(0, ["-"] * 3, [offsets(one, two, offset=1)] * 3))

    # Two sources that reject the same record create one letter.
    assert letters.written == 4
    for topic in (f"dlq.{name}", f"{name}.all"):
        values = sorted(letter.value() for letter in read_committed(bootstrap, topic))
        assert values == [b"from one", b"from two"]


def test_rows_that_a_sink_rejects_become_dead_letters(bootstrap: str, name: str, open_letters: Open) -> None:
    headers = (("trace", b"\x01"), ("none", None), (GROUP_HEADER, b"another"))
    rows = [
        RejectedRow(row={"user": "ann", "n": 1, "raw": b"\xff"}, reason="n is taken", headers=headers),
    ]
    written = []
    for _attempt in range(2):
        letters = open_letters()
        for _lot in range(2):
            letters.of_rejected(rows, fence(0))
        letters.close()
        written.append(letters.written)

    assert written == [2, 0]
    first, second = read_committed(bootstrap, f"dlq.{name}")
    assert json.loads(first.value()) == {"user": "ann", "n": 1, "raw": "/w=="}
    assert error_headers(second) == {"group": name, "message": "n is taken"}
    assert second.headers()[:2] == [("trace", b"\x01"), ("none", None)]


def test_value_of_a_large_dead_letter_is_truncated_and_headers_are_dropped_only_if_they_alone_are_too_large() -> (
    None
):
    error = (REASON_HEADER, b"too large")
    small = OutgoingMessage(value=b"v" * 10, headers=(("trace", b"h" * 10), error))
    assert cut_to_fit(small, 2_000) == small
    large = cut_to_fit(OutgoingMessage(value=b"v" * 3_000, headers=(("trace", b"h" * 10), error)), 2_000)
    assert large.headers == (("trace", b"h" * 10), error, (TRUNCATED_HEADER, b"3000"))
    assert 900 < len(large.value or b"") < 1_000
    wide = cut_to_fit(OutgoingMessage(value=None, headers=(("trace", b"h" * 3_000), error)), 2_000)
    assert wide == OutgoingMessage(value=None, headers=(error, (TRUNCATED_HEADER, b"0")))


def test_job_continues_after_bad_records_and_counts_them(
    spark: SparkSession, apache_kafka: ApacheKafka, name: str, tmp_path: Path
) -> None:
    """In transactions of Apache Kafka."""
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
        error_headers(letter)["message"] for letter in read_committed(apache_kafka.bootstrap, f"dlq.{name}")
    ]
    assert reasons == ["not JSON: Expecting value at character 0", "field user is missing"]
