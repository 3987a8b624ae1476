"""`Topic`: a job's rows as the messages of another topic, on Headrace's broker or Apache Kafka.

The sink, and how rows become messages. `topic_writer.py` (on the driver) and `topic_task.py` (in its tasks) write them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal, Self

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro
from pyspark.sql.types import BinaryType, StringType, StructType

from headrace.pipeline import launch
from headrace.pipeline.errors import BadSink
from headrace.pipeline.settings import pipeline_settings
from headrace.pipeline.sinks.changes import METADATA_PREFIX, OP, RETRACTIONS
from headrace.pipeline.sinks.driver_rows import DRIVER_ROWS_MAX
from headrace.pipeline.sinks.json_text import JSON_OPTIONS
from headrace.pipeline.sinks.options import read_options
from headrace.pipeline.sinks.registered.values import TYPES, Registration, registered_value
from headrace.pipeline.sinks.sink import NativeSink, Sink, SinkWriter
from headrace.pipeline.sinks.topic_task import PROBLEM
from headrace.pipeline.spark.session import bootstrap_of, registry_of
from headrace.topic_names import InvalidTopicName, check_topic_name

TopicGuarantee = Literal["exactly-once", "at-least-once"]
TopicFormat = Literal["json", "avro", "avro-registry", "json-registry", "protobuf-registry"]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]

TIMEOUT_S = 60.0
"""How long a broker may be unavailable, such as during a restart, before a batch fails."""


@dataclass(frozen=True, slots=True)
class Topic(Sink):
    """Each row a message.

        Topic("shop-clicks", key="user")               # the row as JSON
        Topic("documents", key="id", value="body")     # one column, as it is
        Topic("prices", key="item", tombstones=True)   # for a compacted topic: a deleted row becomes a tombstone
        Topic("orders", key="id", format="avro-registry")   # with the id of the schema, which a registry has

    Exactly once means for readers of committed data (`isolation.level=read_committed`, as `read_topic` reads).
    """

    name: str
    _: KW_ONLY
    key: str | Sequence[str] = ()
    """The column whose text or bytes are the message's key; of several columns, a JSON object. Without one,
    any partition."""
    value: str | None = None
    """The column whose text or bytes are the message's value; None for the row in `format`."""
    format: TopicFormat = "json"
    """`json`, `avro`, or one of these with a registry: the whole row, key included, without the columns that begin
    with `_`."""
    schema: str | None = None
    """With a registry: the schema to write with, as text; by default that of the rows. It is registered when the job
    starts."""
    subject: str | None = None
    """Under which the schema is registered; by default `TOPIC-value`."""
    registry: str | None = None
    """The address of the registry; by default that of the session."""
    headers: str | None = None
    """A column of headers, as `read_topic` gives them: array<struct<key: string, value: binary>>."""
    tombstones: bool = False
    """Rows whose `op` is `d` or `-` become messages without a value; `op` itself is not written."""
    guarantee: TopicGuarantee = "exactly-once"
    """`at-least-once` leaves writing to Spark, as real-time mode requires. After a crash, rows may be written twice."""
    compression: Compression = "none"
    bootstrap: str | None = None
    """HOST:PORT; by default the broker of the session."""
    timeout_s: float = TIMEOUT_S
    driver_rows_max: int = DRIVER_ROWS_MAX
    """Batches of at most as many input rows are written by the driver, in one transaction; larger ones by tasks."""

    kind: ClassVar[str] = "topic"

    def __post_init__(self) -> None:
        self.set_names("key")
        try:
            check_topic_name(self.name)
        except InvalidTopicName as error:
            raise BadSink(f"a topic can't be called {self.name!r}", hint=error.hint) from error
        self.check_choice("guarantee", TopicGuarantee)
        self.check_choice("format", TopicFormat)
        self.check_choice("compression", Compression)
        self._check_registry()
        if self.tombstones and not self.key:
            raise BadSink("a tombstone needs a key", hint="name its columns: Topic(…, key=…)")

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """From the options of a Spark writer; the rows have columns `key` and `value`, as Spark's own format
        wants them."""
        found = read_options(cls, options, ("topic", "at", "name", "bootstrap", "compression"))
        names = [found.pop(option) for option in ("topic", "at", "name") if option in found]
        if not names:
            raise BadSink("headrace-topic needs a topic", hint='.option("topic", …)')
        return cls(names[0], **found)

    def _check_registry(self) -> None:
        if self.format not in TYPES:
            if (self.schema, self.subject, self.registry) != (None, None, None):
                raise BadSink(
                    f"topic {self.name}: {self.format} has no registry",
                    hint=f"remove schema, subject and registry, or set format to one of {', '.join(TYPES)}",
                )
        elif self.value is not None:
            raise BadSink(
                f"topic {self.name}: {self.format} is a format of whole rows", hint="remove value, or format"
            )
        elif self.guarantee != "exactly-once" and (self.format != "avro-registry" or self.schema is not None):
            raise BadSink(
                f"topic {self.name}: Spark writes at-least-once by itself, and rejects no row that violates a schema",
                hint='remove guarantee, or set format="avro-registry" without schema',
            )

    def target(self) -> str:
        return f"topic {self.name}"

    def open(self, job: str, schema: StructType) -> SinkWriter:
        from headrace.pipeline.sinks.topic_writer import TopicWriter

        if "value" not in schema.names:
            raise BadSink(
                f"rows for topic {self.name} need a column `value`; they have {', '.join(schema.names)}",
                hint="`prepare` adds it, and `key` and `headers`",
            )
        return TopicWriter(
            job,
            self.name,
            bootstrap=self._bootstrap(),
            compression=self.compression,
            timeout_s=self.timeout_s,
            driver_rows_max=self.driver_rows_max,
        )

    def prepare(self, rows: DataFrame) -> DataFrame:
        """Columns `value`, and `key` and `headers` if they are set: Spark's expressions, nothing in Python."""
        self.check_columns((*self.key, self.value, self.headers), rows.columns)
        if self.tombstones and OP not in rows.columns:
            raise BadSink(f"topic {self.name}: tombstones need a column `op`", hint="a change stream has one")
        value, problem = self._value_columns(rows)
        columns = [value.alias("value")]
        if problem is not None:
            columns.append(problem.alias(PROBLEM))
        if self.key:
            columns.append(self._key_column(rows).alias("key"))
        if self.headers:
            columns.append(_column(self.headers).alias("headers"))
        return rows.select(*columns)

    def native(self) -> NativeSink | None:
        if self.guarantee == "exactly-once":
            return None
        options = {
            "kafka.bootstrap.servers": self._bootstrap(),
            "kafka.compression.type": self.compression,
            "topic": self.name,
        }
        return NativeSink(format="kafka", options=options)

    def _key_column(self, rows: DataFrame) -> Column:
        if len(self.key) == 1:
            return _text_or_bytes(rows, self.key[0])
        return F.to_json(F.struct(*(_column(name) for name in self.key)))

    def _value_columns(self, rows: DataFrame) -> tuple[Column, Column | None]:
        """The values, and why a row has none that its schema accepts."""
        problem = None
        if self.value is not None:
            written = _text_or_bytes(rows, self.value)
        else:
            dropped = (OP,) if self.tombstones else ()
            names = [
                name for name in rows.columns if not name.startswith(METADATA_PREFIX) and name not in dropped
            ]
            row = F.struct(*(_column(name) for name in names))
            if self.format in TYPES:
                kind = StructType([rows.schema[name] for name in names])
                registered = registered_value(self._registration(rows.sparkSession), row, kind)
                written, problem = registered.value, registered.problem
            else:
                written = _encoded(row, self.format)
        if self.tombstones:
            is_kept = ~F.coalesce(_column(OP).isin(*RETRACTIONS), F.lit(False))
            written = F.when(is_kept, written)
            problem = None if problem is None else F.when(is_kept, problem)
        return written, problem

    def _registration(self, spark: SparkSession) -> Registration:
        return Registration(
            format=self.format,
            topic=self.name,
            registry=registry_of(spark, self.registry),
            subject=self.subject or f"{self.name}-value",
            schema=self.schema,
        )

    def _bootstrap(self) -> str:
        spark = SparkSession.getActiveSession()
        if spark is not None:
            return bootstrap_of(spark, self.bootstrap)
        return launch.current().bootstrap or self.bootstrap or pipeline_settings().bootstrap


def _column(name: str) -> Column:
    """By its exact name: dots in it are no path."""
    escaped = name.replace("`", "``")
    return F.col(f"`{escaped}`")


def _text_or_bytes(rows: DataFrame, name: str) -> Column:
    column = _column(name)
    return (
        column if isinstance(rows.schema[name].dataType, (BinaryType, StringType)) else column.cast("string")
    )


def _encoded(row: Column, format: TopicFormat) -> Column:
    if format == "avro":
        return to_avro(row)
    return F.to_json(row, JSON_OPTIONS)
