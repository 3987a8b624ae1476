"""Topics as DataFrames: Spark's own Kafka source, with parsed payloads and without bad records.

The options of the DataFrame's source contain the arguments of `read_topic` (`SourceSpec`), so that a job, the graph and
the dead letters find them in the plan. The formats are in `formats`, start and end in `positions`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from headrace.dead_letters import TOPIC_PREFIX
from headrace.operators import topic_tables
from headrace.operators.arrow_stage.sources import register
from headrace.operators.arrow_stage.stage import stage_rows
from headrace.operators.state import packing_by_columns
from headrace.pipeline import launch
from headrace.pipeline.errors import BadSource
from headrace.pipeline.settings import pipeline_settings
from headrace.pipeline.source.bad_counts import counted
from headrace.pipeline.source.columns import IS_BAD, check_event_time, check_watermark, named_column
from headrace.pipeline.source.formats import Parser, parser_for, schema_text
from headrace.pipeline.source.heartbeats import with_watermark_when_idle
from headrace.pipeline.source.json_blocks import JsonBlocks
from headrace.pipeline.source.offsets import EARLIEST, Span
from headrace.pipeline.source.options import BATCH_BOUND, FETCH_WAIT, FETCH_WAIT_MS
from headrace.pipeline.source.positions import Position, TopicsOnBroker, check, streaming_start_options
from headrace.pipeline.source.registered.subjects import RegisteredFormat, find_reader_schema
from headrace.pipeline.source.skew import skew_column, skew_of_ages
from headrace.pipeline.source.spec import SOURCE_OPTION, Format, SourceSpec
from headrace.pipeline.source.topic_columns import TopicColumns
from headrace.pipeline.spark.session import bootstrap_of, registry_of
from headrace.plan_names import BAD, COLUMNS_ALIAS, RECORD_COLUMNS, metric_of_use

KeyFormat = Literal["string", "binary", "avro-registry", "json-registry", "protobuf-registry", None]

UNREADABLE = "__headrace_unreadable"
MISSING = "__headrace_missing"
MISFITS = "__headrace_misfits"
AHEAD = "__headrace_ahead"
ANCIENT = "__headrace_ancient"
PROBLEM = "__headrace_problem"

OPTIONS_OF_JSON = (
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.legacy.json.allowEmptyString.enabled",
    "spark.sql.json.enableDateTimeParsingFallback",
    "spark.sql.json.enableExactStringParsing",
    "spark.sql.json.enablePartialResults",
)
"""Options of a session that change what Spark reads of JSON. With one of them, only Spark parses records."""

POLL_RECORDS_MAX = 100_000
"""Records that Spark takes from its Kafka consumer at once. Each time it asks the broker for the first and the last
offset of the partition: with Kafka's own 500, that is 4,000 requests for a million records."""

FETCH_BYTES_MAX = 4 * 1024 * 1024
"""Of a partition at once, compressed; the records of two such fetches are in memory for each task. Kafka's own 1 MiB
is less than 10,000 small records."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """All topics whose whole name matches a regular expression, those created later included.

    Dead-letter topics are never among them: a job would read the dead letters that it has just written.
    """

    expression: str


def read_topic(
    spark: SparkSession,
    topic: str | Sequence[str] | Pattern,
    *,
    schema: Any = None,
    format: Format = "json",
    event_time: str | None = None,
    watermark: str | None = None,
    event_time_max_ahead: str | None = "365 days",
    start: Position = "earliest",
    end: Position | None = None,
    bounded: bool = False,
    bootstrap: str | None = None,
    key: KeyFormat = "string",
    dead_letters: str | None = None,
    idle: str | None = None,
    tombstones: bool = False,
    registry: str | None = None,
    subject: str | None = None,
    version: int | None = None,
    message: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The records of one or several topics as a DataFrame: streaming, or bounded by the current end.

        clicks = read_topic(spark, "clicks", schema="user STRING, url STRING, at TIMESTAMP",
                            event_time="at", watermark="10 minutes")
        last_day = read_topic(spark, Pattern(r"clicks\\..*"), schema=…, start=yesterday, bounded=True)
        orders = read_topic(spark, "orders", format="avro-registry")

    The columns are those of the schema, and then `_key`, `_headers`, `_topic`, `_partition`, `_offset`, `_timestamp`.
    A record that cannot be parsed, or lacks a `NOT NULL` field or its event time, or whose event time is too far ahead
    (or before 1970, if a stream has a watermark), is skipped, counted, and written to the topic `dead_letters`
    (`dlq.JOB` by default) by the job that reads it.
    Uncommitted records are not read.

    schema      as in CREATE TABLE, or a StructType; for avro the Avro schema (avro-registry: also one for each number)
    format      json, avro, avro-registry, json-registry, protobuf-registry, changes (Debezium's envelope), text and
                binary (one column, `value`)
    event_time_max_ahead  how far the event time may be ahead of the record's timestamp, because a wrong time in the
                future would move the watermark and make every other row late; None for any time
    start, end  earliest, latest, a datetime, or offsets {"clicks": {0: 17}}; an end is for bounded reading only
    key         how `_key` is read: string, binary, one of the formats with a registry (the latest schema of TOPIC-key),
                or None for no such column
    idle        such as "5 minutes": if nothing was written for this time and everything is read, the source's watermark
                follows the clock at this distance, and does not hold back the other sources (in a Job only)
    tombstones  changes: a record without a value is a delete of the row with its key, as a compacted topic has it
                after a TRUNCATE or an erasure; by default it is skipped, because a delete event is in front of it
    registry    the address of the schema registry, for formats with one: Headrace's, Confluent's, Karapace
    subject, version  the schema that the records are read with; by default the latest of TOPIC-value
    message     protobuf-registry: the message, by its name; by default the first one of the schema
    options     more of Spark's Kafka source, such as {"minPartitions": "8", "kafka.security.protocol": "SSL"}
    """
    check(start, name="start")
    if end is not None:
        check(end, name="end")
        if not bounded:
            raise BadSource("only bounded reading has an end", hint="set bounded=True, or do not set end")
    if tombstones and format != "changes":
        raise BadSource(
            f"tombstones are deletes in change events, and format is {format!r}", hint='format="changes"'
        )
    topics, pattern = _which_topics(topic)
    spec = SourceSpec(
        id=uuid.uuid4().hex[:12],
        bootstrap=bootstrap_of(spark, bootstrap),
        topics=topics,
        pattern=pattern,
        format=format,
        schema=_schema(spark, format, schema, topics, registry, subject, version, message),
        key_schema=_key_schema(spark, key, topics, registry),
        required=() if event_time is None or event_time in RECORD_COLUMNS else (event_time,),
        bounded=bounded,
        dead_letters=dead_letters,
        options=dict(options or {}),
        idle_us=_idle_us(idle, watermark),
        event_time=None if event_time in RECORD_COLUMNS else event_time,
        ahead_us_max=_ahead_us_max(event_time_max_ahead),
        watermark=None if bounded else watermark,
        tombstones=tombstones,
    )
    check_watermark(
        event_time, watermark, hint='event_time="at" names the column; _timestamp is the log\'s own'
    )
    raw = _bounded(spark, spec, start, end) if bounded else _streaming(spark, spec, start)
    return _payload(raw, spec, key=key, event_time=event_time, watermark=watermark)


def read_span(spark: SparkSession, spec: SourceSpec, span: Span) -> DataFrame:
    """Kafka's own columns of exactly these records, bounded; without those that their topic has deleted meanwhile."""
    return _load(spark.read, spec, {**span.options(), "failOnDataLoss": "false"})


def watermarks_of(spark: SparkSession, spec: SourceSpec, span: Span) -> dict[tuple[str, int], int]:
    """By partition, the watermark in milliseconds that the oldest of these records allows. A partition whose records
    have no time is missing."""
    assert spec.watermark is not None
    parser = _parser(spec)
    at = F.col("timestamp") if spec.event_time is None else dict(parser.fields)[spec.event_time]
    rows = _staged(read_span(spark, spec, span), parser).where(~_is_bad(parser, spec))
    oldest = rows.groupBy("topic", "partition").agg(F.min(at).alias("at"))
    delay = F.expr(f"interval {spec.watermark.removeprefix('interval ')}")
    found = oldest.where("at is not null").select("topic", "partition", F.unix_millis(F.col("at") - delay))
    return {(row[0], row[1]): row[2] for row in found.collect()}


def bad_records(raw: DataFrame, spec: SourceSpec) -> DataFrame:
    """Of Kafka's own columns, the records that `read_topic` skips as bad, and what is wrong with each."""
    parser = _parser(spec)
    return (
        _staged(raw, parser)
        .where(_is_bad(parser, spec))
        .select(
            *raw.columns,
            parser.is_unreadable.alias(UNREADABLE),
            _names_of(parser.missing).alias(MISSING),
            _names_of(parser.misfits).alias(MISFITS),
            _time_if(_is_ahead, parser, spec).alias(AHEAD),
            _time_if(_is_ancient, parser, spec).alias(ANCIENT),
            (F.lit(None).cast("string") if parser.problem is None else parser.problem).alias(PROBLEM),
        )
    )


def _parser(spec: SourceSpec) -> Parser:
    return parser_for(
        spec.format, spec.schema, spec.required, tombstones=spec.tombstones, key_schema=spec.key_schema
    )


def _time_if(condition: Callable[[Parser, SourceSpec], Column], parser: Parser, spec: SourceSpec) -> Column:
    """The event time as text, on this condition."""
    at = F.lit(None) if spec.event_time is None else dict(parser.fields)[spec.event_time]
    return F.when(condition(parser, spec), at.cast("string"))


def _is_bad(parser: Parser, spec: SourceSpec) -> Column:
    return parser.is_bad | _is_ahead(parser, spec) | _is_ancient(parser, spec)


def _is_ahead(parser: Parser, spec: SourceSpec) -> Column:
    """By the record's timestamp and not by processing time, so that a record is bad each time it is read."""
    if spec.event_time is None or spec.ahead_us_max is None:
        return F.lit(False)
    at_us, recorded_us = (
        F.unix_micros(dict(parser.fields)[spec.event_time]),
        F.unix_micros(F.col("timestamp")),
    )
    has_timestamp = recorded_us > 0  # Kafka's -1 is none
    return F.coalesce(has_timestamp & (at_us - recorded_us > spec.ahead_us_max), F.lit(False))


def _is_ancient(parser: Parser, spec: SourceSpec) -> Column:
    if spec.event_time is None or spec.watermark is None:
        return F.lit(False)
    return F.coalesce(F.unix_micros(dict(parser.fields)[spec.event_time]) < 0, F.lit(False))


def _names_of(conditions: Sequence[tuple[str, Column]]) -> Column:
    names = [F.when(condition, F.lit(name)) for name, condition in conditions]
    return F.array_compact(F.array(*names).cast("array<string>"))


def _schema(
    spark: SparkSession,
    format: Format,
    schema: Any,
    topics: Sequence[str],
    registry: str | None,
    subject: str | None,
    version: int | None,
    message: str | None,
) -> str | None:
    """The text of the schema: the one that is given, or that of the registry."""
    if schema is None and format in get_args(RegisteredFormat):
        found = find_reader_schema(
            registry_of(spark, registry),
            topics,
            format=format,
            subject=subject,
            version=version,
            message=message,
        )
        return found.to_text()
    if (subject, version, message) != (None, None, None):
        raise BadSource(
            "subject, version and message choose a schema of a registry",
            hint=f"remove schema, or set format to one of {', '.join(get_args(RegisteredFormat))}",
        )
    return schema_text(format, schema)


def _key_schema(
    spark: SparkSession, key: KeyFormat, topics: Sequence[str], registry: str | None
) -> str | None:
    if key is None or key not in get_args(RegisteredFormat):
        return None
    return find_reader_schema(registry_of(spark, registry), topics, format=key, is_key=True).to_text()


def _which_topics(topic: str | Sequence[str] | Pattern) -> tuple[tuple[str, ...], str | None]:
    if isinstance(topic, Pattern):
        return (), rf"^(?!{re.escape(TOPIC_PREFIX)})(?:{topic.expression})$"
    topics = (topic,) if isinstance(topic, str) else tuple(topic)
    if not topics or not all(topics):
        raise BadSource(
            f"{topic!r} names no topic", hint='"clicks", ["clicks", "views"] or Pattern("clicks.*")'
        )
    return topics, None


def _idle_us(idle: str | None, watermark: str | None) -> int | None:
    if idle is None:
        return None
    if watermark is None:
        raise BadSource("a source that may be idle needs a watermark", hint='watermark="10 seconds"')
    from headrace.operators.operator import duration_us

    return duration_us(idle, operator="read_topic", field="idle")


def _ahead_us_max(max_ahead: str | None) -> int | None:
    if max_ahead is None:
        return None
    from headrace.operators.operator import duration_us

    return duration_us(max_ahead, operator="read_topic", field="event_time_max_ahead", zero=True)


def _streaming(spark: SparkSession, spec: SourceSpec, start: Position) -> DataFrame:
    if launch.current().explain:  # nothing is read, so no broker is needed
        start = "earliest"
    begin = streaming_start_options(start, find_partitions=lambda: TopicsOnBroker(spec).everywhere(EARLIEST))
    bound = {BATCH_BOUND: str(pipeline_settings().rows_per_batch_max)}
    return _load(spark.readStream, spec, {**begin, **_subscription(spec)}, usual=bound)


def _bounded(spark: SparkSession, spec: SourceSpec, start: Position, end: Position | None) -> DataFrame:
    if launch.current().explain:
        return _load(spark.read, spec, _subscription(spec))
    span = TopicsOnBroker(spec).pin(start, "latest" if end is None else end)
    return _load(spark.read, spec, span.options())


def _subscription(spec: SourceSpec) -> dict[str, str]:
    if spec.pattern is not None:
        return {"subscribePattern": spec.pattern}
    return {"subscribe": ",".join(spec.topics)}


def _load(
    reader: DataFrameReader | DataStreamReader,
    spec: SourceSpec,
    own: Mapping[str, str],
    *,
    usual: Mapping[str, str] | None = None,
) -> DataFrame:
    """`own` options override those of the user, which override the `usual` ones."""
    options = {
        "kafka.isolation.level": "read_committed",
        "kafka.max.poll.records": str(POLL_RECORDS_MAX),
        "kafka.max.partition.fetch.bytes": str(FETCH_BYTES_MAX),
        FETCH_WAIT: str(FETCH_WAIT_MS),
        **(usual or {}),
        **spec.options,
        "includeHeaders": "true",
        "kafka.bootstrap.servers": spec.bootstrap,
        SOURCE_OPTION: spec.to_option(),
        **own,
    }
    return reader.format("kafka").options(**options).load()


def _staged(raw: DataFrame, parser: Parser) -> DataFrame:
    for name, column in parser.stages:
        raw = raw.withColumn(name, column)
    return raw if parser.is_skipped is None else raw.where(~parser.is_skipped)


def _payload(
    raw: DataFrame, spec: SourceSpec, *, key: KeyFormat, event_time: str | None, watermark: str | None
) -> DataFrame:
    parser = _parser(spec)
    columns = [*parser.fields, *_metadata_columns(key, parser.key)]
    _check_columns([name for name, _ in columns], event_time)
    staged = _staged(raw, parser)
    if event_time is not None:
        named = named_column(event_time, dict(columns)[event_time], is_event_time=True)
        check_event_time(staged.select(named).schema, event_time)
    rows = staged.select(
        *[named_column(name, column, is_event_time=name == event_time) for name, column in columns],
        _is_bad(parser, spec).alias(IS_BAD),
    )
    # Between the parsing and the filter on purpose: the optimizer cannot move the filter, and with it a second parsing
    # of every record, below it.
    rows = _observed(rows, spec, event_time).where(~F.col(IS_BAD)).drop(IS_BAD)
    if spec.idle_us is None:
        rows = _by_columns(rows, raw, spec, dict(columns), key=key, event_time=event_time)
    if event_time is not None and watermark is not None and not spec.bounded:
        if spec.idle_us is not None:
            return with_watermark_when_idle(rows, event_time, watermark, source_id=spec.id)
        rows = rows.withWatermark(event_time, watermark)
    return rows


def _by_columns(
    rows: DataFrame,
    raw: DataFrame,
    spec: SourceSpec,
    columns: Mapping[str, Column],
    *,
    key: KeyFormat,
    event_time: str | None,
) -> DataFrame:
    """The rows, registered for operators that read them by columns, if that is possible."""
    spark = rows.sparkSession
    if spec.format != "json" or spec.bounded or spec.key_schema is not None or _parses_otherwise(spark):
        return rows
    blocks = JsonBlocks.of(spec.schema or "", spark.conf.get("spark.sql.session.timeZone") or "")
    if blocks is None:
        return rows
    parser = _parser(spec)
    has_skew = event_time is not None

    def observed(counts: DataFrame, use: str, bad: Column, age_ms: Column) -> DataFrame:
        skew = [skew_of_ages(age_ms)] if has_skew else []
        return counts.observe(metric_of_use(spec.bad_metric, use), bad.alias(BAD), *skew)

    register(
        TopicColumns(
            raw,
            spec,
            blocks,
            columns=columns,
            required=[name for name, _ in parser.missing],
            event_time=event_time,
            staged=lambda records: _staged(records, parser),
            is_bad=_is_bad(parser, spec),
            observed=observed,
            decodes_key=key == "string",
        )
    )
    return rows.alias(COLUMNS_ALIAS + spec.id)


def _parses_otherwise(spark: SparkSession) -> bool:
    """Whether the session has an option that changes what Spark reads of JSON."""
    session: Any = spark._jsparkSession
    conf = session.sessionState().conf()
    return any(conf.contains(name) for name in OPTIONS_OF_JSON)


def _observed(rows: DataFrame, spec: SourceSpec, event_time: str | None) -> DataFrame:
    """The rows with bad ones. The progress of the query has the number of bad rows, and the skew of the others."""
    if not spec.can_have_bad and (event_time is None or spec.bounded):
        return rows
    count = F.count_if(F.col(IS_BAD)).alias(BAD)
    has_skew = event_time is not None and not spec.bounded
    skew = [skew_column(F.col(f"`{event_time}`"), F.col("_offset"))] if has_skew else []
    return counted(rows, spec, count, *skew)


def _metadata_columns(key: KeyFormat, decoded_key: Column | None) -> list[tuple[str, Column]]:
    if key not in get_args(KeyFormat):
        raise BadSource(f"key={key!r} is unknown", hint=f"one of {', '.join(map(repr, get_args(KeyFormat)))}")
    columns = [(name, F.col(name.removeprefix("_"))) for name in RECORD_COLUMNS if name != "_key"]
    if key is None:
        return columns
    if decoded_key is not None:
        return [("_key", decoded_key), *columns]
    is_text = key == "string"
    return [("_key", F.make_valid_utf8(F.col("key").cast("string")) if is_text else F.col("key")), *columns]


def _check_columns(names: list[str], event_time: str | None) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadSource(
            f"the schema has a column {twice[0]!r}, which is also one that every record has",
            hint="columns with these names come from Kafka, or from the envelope of changes; read it under another one",
        )
    if event_time is not None and event_time not in names:
        raise BadSource(f"event_time={event_time!r} is no column", hint=f"the columns are {', '.join(names)}")


def _read_beside(rows: DataFrame, topic: str) -> DataFrame:
    """For operators that name a topic."""
    return read_topic(rows.sparkSession, topic, format="binary", bounded=not rows.isStreaming)


topic_tables.set_reader(_read_beside)
packing_by_columns.set_function(stage_rows)
