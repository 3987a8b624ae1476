"""Folders of CSV, JSON and Parquet files as DataFrames: Spark's own file source, without bad rows.

Spark keeps in the checkpoint which files a stream has read, each once, and runs a batch again with the same files. So
sinks write each row once, as with topics. Bad rows are counted, and become dead letters (`letters/file_letters`).
"""

from __future__ import annotations

import functools
import glob
import json
import operator
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from headrace.pipeline.errors import BadSource
from headrace.pipeline.source.bad_counts import counted
from headrace.pipeline.source.columns import IS_BAD, check_event_time, check_watermark, named_column
from headrace.pipeline.source.files_spec import FILES_OPTION, FileFormat, FilesSpec
from headrace.pipeline.source.formats import CORRUPT, parser_for, schema_text
from headrace.pipeline.source.read_topic import MISFITS, MISSING
from headrace.plan_names import BAD

FILE_COLUMN, MODIFIED_COLUMN = "_file", "_modified"

PATTERNS: Mapping[FileFormat, str] = {
    "csv": "*.{csv,csv.gz}",
    "json": "*.{json,jsonl,ndjson,json.gz,jsonl.gz,ndjson.gz}",
    "parquet": "*.parquet",
}

FILE_AGE_MAX = "3650d"
"""Spark skips files that are older than the newest one by more than this. Its own seven days would lose a file that was
moved into the folder late."""

ROW, TEXT, READ = "__headrace_row", "__headrace_text", "__headrace_read"


def read_files(
    spark: SparkSession,
    path: str | Path,
    *,
    schema: Any,
    format: FileFormat = "json",
    event_time: str | None = None,
    watermark: str | None = None,
    bounded: bool = False,
    pattern: str | None = None,
    recursive: bool = False,
    dead_letters: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The rows of the files in a folder as a DataFrame: streaming, with new files as they arrive, or
    bounded by the files that are there.

        orders = read_files(spark, "incoming/", format="csv", schema="id BIGINT NOT NULL, amount DOUBLE, at TIMESTAMP",
                            event_time="at", watermark="1 hour")

    The columns are those of the schema, and then `_file` and `_modified`. A stream reads each path once, also if the
    file changes later: write a file under a name that does not match `pattern`, or that begins with a dot, and rename
    it when it is complete. A row that cannot be parsed, or lacks a `NOT NULL` column or its event time, is skipped,
    counted, and written to the topic `dead_letters` (`dlq.JOB` by default) by the job that reads it.

    path        a folder, or a pattern of folders, of this machine or of a store that Spark reaches (s3a://…)
    schema      as in CREATE TABLE, or a StructType
    format      csv (with a header that names the columns in order), json (one object per line) or parquet
    pattern     of file names; by default those that end as the format is called, compressed ones included
    recursive   also the folders in these folders
    options     more of Spark's file source, such as {"sep": ";", "maxFilesPerTrigger": "10", "cleanSource": "archive"}
    """
    if format not in get_args(FileFormat):
        raise BadSource(
            f"format={format!r} is not one of files",
            hint=f"the formats are {', '.join(get_args(FileFormat))}",
        )
    check_watermark(event_time, watermark, hint='event_time="at" names the column')
    text = schema_text("json", schema)
    assert text is not None
    spec = FilesSpec(
        id=uuid.uuid4().hex[:12],
        path=_existing(str(path)),
        format=format,
        schema=text,
        required=_required(text, event_time),
        bounded=bounded,
        dead_letters=dead_letters,
        options={
            **({} if bounded else {"maxFileAge": FILE_AGE_MAX}),
            **{name: str(value) for name, value in (options or {}).items()},
            **_options(format),
            "pathGlobFilter": pattern or PATTERNS[format],
            "recursiveFileLookup": str(recursive).lower(),
        },
        event_time=event_time,
        watermark=None if bounded else watermark,
    )
    _check_columns(_schema(spec), event_time)
    return _rows(_load(spark, spec), spec)


def bad_file_rows(spark: SparkSession, spec: FilesSpec, paths: Sequence[str]) -> DataFrame:
    """The rows that `read_files` skips as bad: the text of each if it could not be parsed, the row as JSON, and what is
    wrong with it."""
    reader = spark.read.format(spec.format).schema(_read_schema(spec))
    # Names may have characters of patterns.
    options = {**spec.options, "__globPaths__": "false"}
    rows = reader.options(**options).load([*paths])
    is_missing = [F.when(F.col(_quoted(name)).isNull(), F.lit(name)) for name in spec.required]
    text = F.col(CORRUPT) if spec.format != "parquet" else F.lit(None).cast("string")
    bad = rows.where(_is_bad(spec)).select(
        text.alias(TEXT),
        F.col("_metadata.file_path").alias(FILE_COLUMN),
        F.array_compact(F.array(*is_missing).cast("array<string>")).alias(MISSING),
        F.to_json(F.struct(*[F.col(_quoted(name)) for name in _schema(spec).fieldNames()])).alias(ROW),
    )
    return _with_misfits(bad, spec)


def _with_misfits(bad: DataFrame, spec: FilesSpec) -> DataFrame:
    """The columns that a text does not fit: by name, and for CSV what was read."""
    nothing = F.array().cast("array<string>")
    if spec.format == "json":
        of_json = parser_for("json", spec.schema).misfits
        names = [F.when(condition, F.lit(name)) for name, condition in of_json]
        misfits = F.array_compact(F.array(*names).cast("array<string>"))
        return bad.withColumn("value", F.col(TEXT)).withColumns({MISFITS: misfits, READ: nothing})
    if spec.format == "parquet":
        return bad.withColumns({MISFITS: nothing, READ: nothing})
    schema = _schema(spec)
    texts = StructType([StructField(name, StringType()) for name in schema.fieldNames()])
    options = {**spec.options, "mode": "PERMISSIVE"}
    typed = F.from_csv(F.col(TEXT), _ddl(schema), options)
    read = F.from_csv(F.col(TEXT), _ddl(texts), options)
    names = [
        F.when(read.getField(name).isNotNull() & typed.getField(name).isNull(), F.lit(name))
        for name in schema.fieldNames()
    ]
    return bad.withColumns(
        {
            MISFITS: F.array_compact(F.array(*names).cast("array<string>")),
            READ: F.array(*[read.getField(name) for name in schema.fieldNames()]),
        }
    )


def _existing(path: str) -> str:
    if "://" not in path and not glob.has_magic(path) and not Path(path).exists():
        raise BadSource(f"there is no folder {path}", hint="create it before the job starts")
    return path


def _required(schema: str, event_time: str | None) -> tuple[str, ...]:
    own = [field["name"] for field in json.loads(schema)["fields"] if not field["nullable"]]
    return tuple(dict.fromkeys([*([event_time] if event_time else []), *own]))


def _options(format: FileFormat) -> dict[str, str]:
    if format == "parquet":
        return {}
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    if format == "csv":
        # Columns in another order would be read as each other; a row is bad whichever of its columns a job uses.
        options |= {"header": "true", "enforceSchema": "false", "columnPruning": "false"}
    return options


def _schema(spec: FilesSpec) -> StructType:
    return StructType.fromJson(json.loads(spec.schema))


def _nullable(schema: StructType) -> StructType:
    return StructType([StructField(field.name, field.dataType) for field in schema.fields])


def _ddl(schema: StructType) -> str:
    return ", ".join(f"{_quoted(field.name)} {field.dataType.simpleString()}" for field in schema.fields)


def _read_schema(spec: FilesSpec) -> StructType:
    schema = _nullable(_schema(spec))
    return schema if spec.format == "parquet" else schema.add(CORRUPT, StringType())


def _check_columns(schema: StructType, event_time: str | None) -> None:
    if taken := {FILE_COLUMN, MODIFIED_COLUMN, CORRUPT} & set(schema.fieldNames()):
        raise BadSource(
            f"the schema has a column {min(taken)!r}, which is also one that every row has",
            hint="rename it in the files",
        )
    if event_time is not None and event_time not in schema.fieldNames():
        raise BadSource(
            f"event_time={event_time!r} is no column",
            hint=f"the columns are {', '.join(schema.fieldNames())}",
        )
    if event_time is not None:
        check_event_time(schema, event_time)


def _load(spark: SparkSession, spec: FilesSpec) -> DataFrame:
    reader = spark.read if spec.bounded else spark.readStream
    options = {**spec.options, FILES_OPTION: spec.to_option()}
    return reader.format(spec.format).schema(_read_schema(spec)).options(**options).load(_absolute(spec.path))


def _absolute(path: str) -> str:
    """Spark may have another working folder."""
    return path if "://" in path else os.path.abspath(path)


def _rows(raw: DataFrame, spec: FilesSpec) -> DataFrame:
    names = _schema(spec).fieldNames()
    rows = raw.select(
        *[named_column(name, F.col(_quoted(name)), is_event_time=name == spec.event_time) for name in names],
        F.col("_metadata.file_path").alias(FILE_COLUMN),
        F.col("_metadata.file_modification_time").alias(MODIFIED_COLUMN),
        _is_bad(spec).alias(IS_BAD),
    )
    if spec.can_have_bad:
        # The second value needs all columns: Spark finds what is bad only in the columns that it reads.
        all_columns = F.hash(*[F.col(_quoted(name)) for name in names])
        rows = counted(
            rows, spec, F.count_if(F.col(IS_BAD)).alias(BAD), F.bit_xor(all_columns).alias("columns")
        )
    rows = rows.where(~F.col(IS_BAD)).drop(IS_BAD)
    if spec.watermark is not None:
        assert spec.event_time is not None
        rows = rows.withWatermark(spec.event_time, spec.watermark)
    return rows


def _is_bad(spec: FilesSpec) -> Column:
    conditions = [F.col(_quoted(name)).isNull() for name in spec.required]
    if spec.format != "parquet":
        conditions.append(F.col(CORRUPT).isNotNull())
    if spec.watermark is not None and spec.event_time is not None:
        # Spark's watermarks start at 1970.
        at = F.col(_quoted(spec.event_time))
        conditions.append(F.coalesce(F.unix_micros(at) < 0, F.lit(False)))
    return functools.reduce(operator.or_, conditions, F.lit(False))


def _quoted(name: str) -> str:
    return f"`{name}`"
