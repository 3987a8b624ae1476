"""Stored queries that the documents of a stream meet, given as a table that may change at any time.

Documents and changes of the queries go to one step (`search_step.py`). The queries are divided into shards by their
key, and each document goes to all shards.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from headrace.operators.emitted_times import emitted_time, lag_of, require_final_rows, with_emitted_time
from headrace.operators.joins.sides import names_in_result, require_frame, require_like_sides
from headrace.operators.joins.table_changes import TableChanges
from headrace.operators.late import SideOutput
from headrace.operators.late_rows import original_row
from headrace.operators.operator import (
    BadOperator,
    Duration,
    Operator,
    column,
    column_name,
    duration_us,
    event_time_column,
    names,
    require_columns,
    require_kind,
    require_one_of,
    require_text,
    require_watermark,
    time_name,
    time_us,
)
from headrace.operators.search.plan import matches_everything
from headrace.operators.search.query import BadQuery, Field, Implicit, Kind, QueryParser, encode_query
from headrace.operators.search.search_step import HIGHLIGHTS, SCORE, SUPPRESSED, SearchRules, SearchStep, Side
from headrace.operators.state.ids import Hashes
from headrace.operators.state.table import column_of, ints_of
from headrace.operators.topic_tables import read_topic_beside
from headrace.operators.windows.skipped_rows import has_no_time, skip_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_KIND = "SearchQueries"
_SUFFIX = "_query"
_QUERY_SHOWN_CHARS = 200

AsOf = Literal["event_time", "latest"]
Everything = Literal["accept", "reject"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SearchQueries(Operator):
    """Match each document with all stored queries, and emit one row for each hit.

        hits = articles.transform(op.SearchQueries("saved_searches", text=["title", "body"], key="id"))

    The result has the columns of the document, the key of the query, `score` and `highlights`. A query that can't be
    parsed is a dead letter with the place of its error, and matches nothing.

    queries      a compacted topic, whose records have a key and a value such as {"query": "green AND tea"}; or a
                 DataFrame with the changes of the queries, each of which replaces the previous row with its key
    text         the columns of the documents that a query without a field searches
    key          the column with the key of a query; the key of the record, if `queries` is a topic
    query        the column, or the field of the value, with the query string
    same         columns that a document and a query must have in common, such as ["tenant", "language"], or
                 {name in the documents: name in the queries}. A query in which one is null applies to any value of it
    columns      more columns of the queries for the result; those of a topic are strings
    emit         the columns of the documents for the result, with the event time; by default all
    as_of        "event_time": the queries as they were at the time of the document, in any order of arrival;
                 "latest": the queries that have arrived when the document is processed
    implicit     how clauses without an operator are combined: "or" or "and"
    limit        how many hits of a query are emitted within `per`: a number, or the column of the queries with it. The
                 result then has a column `suppressed`: how many hits were not emitted since the one before
    per          the window of `limit`, in event time
    everything   whether a query that matches every document is accepted, with a warning, or rejected
    rejected     where bad queries go: by default the dead-letter topic of the job. None: they are only logged
    score        whether the result has the column `score`
    fragments    how many highlights a hit has at most; 0 for no such column
    mark         what is put before and after a found word in a highlight
    shards       into how many parts the queries are divided, which are processed in parallel
    time         the event-time column of the documents; by default the column that the source declared
    query_time   the column with the time from which a query is valid; by default the declared one, or `_change_ts`
    deleted      an expression that is true for a change that deletes the query; by default based on `op`
    """

    queries: str | DataFrame
    text: str | Sequence[str] = field(kw_only=True)
    key: str = field(kw_only=True)
    query: str = field(default="query", kw_only=True)
    same: str | Sequence[str] | Mapping[str, str] = field(default=(), kw_only=True)
    columns: str | Sequence[str] = field(default=(), kw_only=True)
    emit: str | Sequence[str] | None = field(default=None, kw_only=True)
    as_of: AsOf = field(default="event_time", kw_only=True)
    implicit: Implicit = field(default="or", kw_only=True)
    limit: int | str | None = field(default=None, kw_only=True)
    per: Duration = field(default="1 hour", kw_only=True)
    everything: Everything = field(default="accept", kw_only=True)
    rejected: SideOutput | None = field(default=SideOutput(), kw_only=True)
    score: bool = field(default=True, kw_only=True)
    fragments: int = field(default=3, kw_only=True)
    mark: tuple[str, str] = field(default=("**", "**"), kw_only=True)
    shards: int = field(default=2, kw_only=True)
    time: str | None = field(default=None, kw_only=True)
    query_time: str | None = field(default=None, kw_only=True)
    deleted: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.queries, str):
            require_text(self.queries, operator=_KIND, field="queries", hint='name a topic: "saved_searches"')
            for name in ("query_time", "deleted"):
                if getattr(self, name) is not None:
                    problem = "is set, but a topic has its own: the timestamp of the record, and tombstones"
                    raise BadOperator(_KIND, name, problem, hint=f"remove {name}=, or pass a DataFrame")
        else:
            require_frame(self.queries, operator=_KIND, field="queries")
        for name in ("text", "columns"):
            object.__setattr__(self, name, names(getattr(self, name), operator=_KIND, field=name))
        if self.emit is not None:
            object.__setattr__(self, "emit", names(self.emit, operator=_KIND, field="emit"))
        if not self.text:
            raise BadOperator(_KIND, "text", "is empty", hint='name the columns to search: text=["title"]')
        for name in ("key", "query"):
            object.__setattr__(self, name, column_name(getattr(self, name), operator=_KIND, field=name))
        for name in ("time", "query_time"):
            object.__setattr__(self, name, time_name(getattr(self, name), operator=_KIND, field=name))
        _ = self.pairs
        require_one_of(self.as_of, AsOf, operator=_KIND, field="as_of")
        require_one_of(self.implicit, Implicit, operator=_KIND, field="implicit")
        require_one_of(self.everything, Everything, operator=_KIND, field="everything")
        hint = 'set rejected=op.SideOutput("bad-queries"), or None'
        require_kind(self.rejected, SideOutput | None, operator=_KIND, field="rejected", hint=hint)
        require_kind(self.score, bool, operator=_KIND, field="score", hint="set True or False")
        self._check_numbers()
        if self.deleted is not None:
            hint = "set an expression such as \"status = 'closed'\""
            require_text(self.deleted, operator=_KIND, field="deleted", hint=hint)

    def _check_numbers(self) -> None:
        require_kind(
            self.limit,
            int | str | None,
            operator=_KIND,
            field="limit",
            hint="set a number of hits, or a column",
        )
        for name, least in (("limit", 1), ("fragments", 0), ("shards", 1)):
            given = getattr(self, name)
            if name != "limit":
                require_kind(
                    given, int, operator=_KIND, field=name, hint=f"set a number, such as {least + 1}"
                )
            if isinstance(given, int) and given < least:
                raise BadOperator(_KIND, name, f"is {given}", hint=f"set a number of at least {least}")
        _ = duration_us(self.per, operator=_KIND, field="per")
        mark: Any = self.mark
        if not isinstance(mark, tuple | list) or [type(each) for each in mark] != [str, str]:
            hint = 'set two texts: mark=("<em>", "</em>")'
            raise BadOperator(_KIND, "mark", f"is {self.mark!r}, not a pair of texts", hint=hint)

    @property
    def is_latest(self) -> bool:
        return self.as_of == "latest"

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The filters: the name in the documents, and the name in the queries."""
        if isinstance(self.same, Mapping):
            here = names(tuple(self.same), operator=_KIND, field="same")
            there = names(tuple(self.same.values()), operator=_KIND, field="same")
        else:
            here = there = names(self.same, operator=_KIND, field="same")
        return tuple(zip(here, there, strict=True))

    @property
    def rules(self) -> SearchRules:
        per_us = duration_us(self.per, operator=_KIND, field="per")
        return SearchRules(
            is_latest=self.is_latest,
            per_us=None if self.limit is None else per_us,
            with_score=self.score,
            fragments=self.fragments,
            mark=(self.mark[0], self.mark[1]),
            shards=self.shards,
        )

    def __call__(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        from headrace.operators.state.keys import arrow_type
        from headrace.operators.state.spark import BUCKETS, BUCKETS_SETTING, run_step

        require_final_rows(rows, operator=_KIND)
        buckets = int(rows.sparkSession.conf.get(BUCKETS_SETTING, str(BUCKETS)) or BUCKETS)
        if self.shards > buckets:
            raise BadOperator(
                _KIND,
                "shards",
                f"is {self.shards}, but the session has {buckets} buckets",
                hint=f"set at most {buckets}, or more buckets: {BUCKETS_SETTING}",
            )
        changes = self._changes(rows)
        fields = self._fields(rows)
        emitted = self._emitted(rows)
        called = self._names(emitted)
        documents = self._documents(rows, changes.queries)
        together = documents.unionByName(changes.frame(rows))
        numbers = {name: number for number, name in enumerate(rows.columns)}
        step = SearchStep(
            rules=self.rules,
            owner=hashlib.sha256(repr((rows.schema.simpleString(), self.kept_for())).encode()).hexdigest(),
            fields=fields,
            sources=[f"l{numbers[each.name]}" for each in fields],
            columns=[pa.field(each.name, arrow_type(each.dataType)) for each in rows.schema],
            query_columns=[
                pa.field(called[name], arrow_type(together.schema[f"r{number}"].dataType))
                for number, name in enumerate(changes.columns)
            ],
            filters=[
                (f"l{numbers[here]}", arrow_type(together.schema[f"q{number}"].dataType))
                for number, (here, _) in enumerate(self.pairs)
            ],
            emitted=emitted,
        )
        lift = QueryLift(
            step.input_schema,
            QueryParser(fields, implicit=self.implicit),
            buckets=range(self.shards),
            is_everything_rejected=self.everything == "reject",
            logs_rejected=self.rejected is None or not rows.isStreaming,
        )
        lag_us = max(lag_of(rows), lag_of(changes.queries))
        results = run_step(
            together,
            lift,
            step,
            name="search",
            kept_for=f"{self.kept_for()} of {', '.join(f'{each.name} {each.type}' for each in step.output_schema)}",
            late_topic=None if self.rejected is None else self.rejected.topic,
            is_late_topic_required=False,
            lag_us=lag_us,
        )
        known = [column(name).alias(name, metadata=rows.schema[name].metadata) for name in emitted]
        added = [F.col(f"`{name}`") for name in step.output_schema.names[len(emitted) :]]
        hits = results.select(*known, *added)
        if step.due_column is None:
            return hits
        time = event_time_column(rows, self.time, operator=_KIND)
        return with_emitted_time(
            hits, time, rows.schema[time], replace(emitted_time(rows, time), lag_us=lag_us)
        )

    def kept_for(self) -> str:
        """A text of everything that the state depends on: if it changes, the stored state is not valid any more."""
        return (
            f"SearchQueries(text={self.text}; key={self.key}; query={self.query}; same={self.pairs}; "
            f"columns={self.columns}; as_of={self.as_of}; implicit={self.implicit}; limit={self.limit is not None}; "
            f"shards={self.shards}; time={self.time}; query_time={self.query_time}; deleted={self.deleted})"
        )

    def _fields(self, rows: DataFrame) -> list[Field]:
        """The columns that queries may name: first the text columns, then all others with a value to compare."""
        from pyspark.sql.types import StringType

        require_columns(rows, self.text, operator=_KIND, field="text")
        for name in self.text:
            kind = rows.schema[name].dataType
            if not isinstance(kind, StringType):
                raise BadOperator(
                    _KIND,
                    "text",
                    f"names column {name!r}, which is {kind.simpleString()}, not a string",
                    hint=f'cast it: rows.withColumn("{name}", F.col("{name}").cast("string"))',
                )
        found = [Field(name, Kind.TEXT) for name in self.text]
        for each in rows.schema:
            kind_of = _kind_of(each.dataType)
            if each.name not in self.text and kind_of is not None:
                found.append(Field(each.name, kind_of))
        return found

    def _emitted(self, rows: DataFrame) -> list[str]:
        """The columns of the documents in the result."""
        if self.emit is None:
            return list(rows.columns)
        require_columns(rows, self.emit, operator=_KIND, field="emit")
        time = None if self.is_latest else event_time_column(rows, self.time, operator=_KIND)
        return [name for name in rows.columns if name in self.emit or name == time]

    def _names(self, emitted: Sequence[str]) -> dict[str, str]:
        """The names of the queries' columns in the result."""
        called = names_in_result(emitted, [self.key, *self.columns], suffix=_SUFFIX, operator=_KIND)
        own = [SCORE] if self.score else []
        own += [HIGHLIGHTS] if self.fragments else []
        own += [SUPPRESSED] if self.limit is not None else []
        for name in own:
            if name in (*emitted, *called.values()):
                raise BadOperator(
                    _KIND,
                    "queries",
                    f"adds a column {name!r}, which the documents or the queries already have",
                    hint=f'rename it first: rows.withColumnRenamed("{name}", …)',
                )
        return called

    def _changes(self, rows: DataFrame) -> QueryChanges:
        queries, deleted, time = self.queries, self.deleted, self.query_time
        if isinstance(queries, str):
            records = read_topic_beside(rows, queries, operator=_KIND, field="queries")
            queries, deleted, time = self._parsed(rows, records), "value is null", "_timestamp"
        require_like_sides(rows, queries, (), operator=_KIND, field="queries")
        limit = [self.limit] if isinstance(self.limit, str) else []
        there = [name for _, name in self.pairs]
        for wanted, role in (
            ([self.key], "key"),
            ([self.query], "query"),
            (self.columns, "columns"),
            (there, "same"),
            (limit, "limit"),
        ):
            require_columns(queries, wanted, operator=_KIND, field=role)
        require_columns(rows, [here for here, _ in self.pairs], operator=_KIND, field="same")
        for here, name in self.pairs:
            kind, other = rows.schema[here].dataType, queries.schema[name].dataType
            if kind != other:
                problem = f"compares {here!r}, which is {kind.simpleString()}, with {name!r}, which is "
                hint = f'cast one of them: F.col("{name}").cast("{kind.simpleString()}")'
                raise BadOperator(_KIND, "same", problem + other.simpleString(), hint=hint)
        entries = TableChanges(
            table=queries,
            operator=_KIND,
            time=time,
            time_field="query_time",
            deleted=deleted,
            is_latest=self.is_latest,
        )
        return QueryChanges(operator=self, queries=queries, entries=entries)

    def _parsed(self, rows: DataFrame, records: DataFrame) -> DataFrame:
        """The records of a topic in columns. A value that is not JSON has no query, which is rejected later."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import LongType, StringType, StructField, StructType

        kinds: dict[str, DataType] = {self.query: StringType()}
        kinds |= {name: StringType() for name in self.columns}
        kinds |= {there: rows.schema[here].dataType for here, there in self.pairs if here in rows.columns}
        if isinstance(self.limit, str):
            kinds[self.limit] = LongType()
        schema = StructType([StructField(name, kind) for name, kind in kinds.items() if name != self.key])
        value = F.col("value").cast("string")
        parsed = records.withColumn("value", value).withColumn("__parsed", F.from_json("value", schema))
        own = [F.col("__parsed").getField(each.name).alias(each.name) for each in schema]
        record = [name for name in parsed.columns if name.startswith("_") and name != "__parsed"]
        return parsed.select(F.col("_key").alias(self.key), *own, "value", *map(column, record))

    def _documents(self, rows: DataFrame, queries: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        from headrace.operators.state.keys import hashes

        at_us = F.lit(0).cast("bigint")
        if not self.is_latest or self.limit is not None:
            time = event_time_column(rows, self.time, operator=_KIND)
            if not self.is_latest:
                require_watermark(rows, time, operator=_KIND)
            at_us = time_us(time)
            rows = skip_rows(rows, {"no_time": has_no_time(time)}, name="search")
        hashed = [column(each.name) for each in rows.schema if "map<" not in each.dataType.simpleString()]
        return rows.select(
            *hashes(hashed, "h"),
            at_us.alias("time"),
            F.lit(0).cast("bigint").alias("seq"),
            F.lit(0).cast("int").alias("shard"),
            F.lit(int(Side.DOCUMENT)).cast("byte").alias("side"),
            F.lit(False).alias("deleted"),
            *(column(name).alias(f"l{number}", metadata={}) for number, name in enumerate(rows.columns)),
            *(
                F.lit(None).cast(queries.schema[name].dataType).alias(f"r{number}")
                for number, name in enumerate([self.key, *self.columns])
            ),
            *(
                F.lit(None).cast(queries.schema[there].dataType).alias(f"q{number}")
                for number, (_, there) in enumerate(self.pairs)
            ),
            F.lit(None).cast("bigint").alias("hits_max"),
            F.lit(None).cast("string").alias("query"),
            F.lit(None).cast("string").alias("original"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryChanges:
    """The changes of the queries beside the documents."""

    operator: SearchQueries
    queries: DataFrame
    entries: TableChanges

    @property
    def columns(self) -> list[str]:
        """The columns of the result."""
        return [self.operator.key, *self.operator.columns]

    def frame(self, rows: DataFrame) -> DataFrame:
        """The changes in the columns of the step's input."""
        from pyspark.sql import functions as F

        from headrace.operators.state.keys import hash_columns

        operator, queries = self.operator, self.queries
        limit = operator.limit
        hits_max: Column = column(limit) if isinstance(limit, str) else F.lit(limit)
        hashed = hash_columns(queries, [operator.key], operator=_KIND)
        return queries.select(
            *hashed,
            self.entries.since_us().alias("time"),
            self.entries.sequence().alias("seq"),
            F.pmod(hashed[0], F.lit(operator.shards)).cast("int").alias("shard"),
            F.lit(int(Side.CHANGE)).cast("byte").alias("side"),
            self.entries.is_deleted().alias("deleted"),
            *(F.lit(None).cast(each.dataType).alias(f"l{number}") for number, each in enumerate(rows.schema)),
            *(column(name).alias(f"r{number}", metadata={}) for number, name in enumerate(self.columns)),
            *(
                column(there).alias(f"q{number}", metadata={})
                for number, (_, there) in enumerate(operator.pairs)
            ),
            hits_max.cast("bigint").alias("hits_max"),
            column(operator.query).cast("string").alias("query"),
            original_row(queries).alias("original"),
        )


def _kind_of(kind: DataType) -> Kind | None:
    from pyspark.sql.types import (
        BooleanType,
        DateType,
        NumericType,
        StringType,
        TimestampNTZType,
        TimestampType,
    )

    if isinstance(kind, StringType | BooleanType):
        return Kind.KEYWORD
    if isinstance(kind, NumericType):
        return Kind.NUMBER
    return Kind.TIME if isinstance(kind, DateType | TimestampType | TimestampNTZType) else None


class QueryLift:
    """The lift: queries are parsed, and documents go to all shards."""

    def __init__(
        self,
        schema: pa.Schema,
        parser: QueryParser,
        *,
        buckets: Sequence[int],
        is_everything_rejected: bool,
        logs_rejected: bool = False,
    ) -> None:
        """`buckets` are those of the shards."""
        self._schema = schema
        self._parser = parser
        self._buckets = np.array(buckets, dtype=np.uint64)
        self._is_everything_rejected = is_everything_rejected
        self._logs_rejected = logs_rejected

    def __call__(self, rows: pa.Table) -> tuple[pa.Table, Hashes]:
        is_document = pa.array(ints_of(rows, "side") == Side.DOCUMENT)
        documents = rows.filter(is_document)
        count = documents.num_rows
        parts = [
            self._with(documents, shard=np.full(count, shard, np.int32))
            for shard in range(len(self._buckets))
        ]
        changes = rows.filter(pc.invert(is_document))
        parts.append(self._parsed(changes))
        together = pa.concat_tables(parts).combine_chunks()
        return together, self._buckets[ints_of(together, "shard")]

    def _parsed(self, changes: pa.Table) -> pa.Table:
        programs: list[bytes | None] = []
        reasons: list[str | None] = []
        keys = column_of(changes, "r0").to_pylist()
        texts = column_of(changes, "query").to_pylist()
        is_deleted = column_of(changes, "deleted").to_pylist()
        for key, text, deleted in zip(keys, texts, is_deleted, strict=True):
            program, reason = (None, None) if deleted and key is not None else self._program(key, text)
            programs.append(program)
            reasons.append(reason)
            if reason is not None and self._logs_rejected:
                _log.warning("%s", reason)
        is_bad = np.array([each is not None for each in reasons], dtype=np.bool_)
        return self._with(
            changes,
            program=pa.array(programs, pa.binary()),
            reason=pa.array(reasons, pa.string()),
            side=np.where(is_bad, Side.REJECTED, Side.CHANGE).astype(np.int8),
            deleted=np.array(is_deleted, dtype=np.bool_) | is_bad,
        )

    def _program(self, key: Any, text: str | None) -> tuple[bytes | None, str | None]:
        """The encoded query, or the reason why there is none."""
        if key is None:
            return None, "bad query: it has no key"
        if text is None:
            return None, f"bad query {key!r}: it has no query string"
        try:
            tree = self._parser.parse(text)
        except BadQuery as error:
            return None, f"bad query {key!r}: {error}: {text[:_QUERY_SHOWN_CHARS]}"
        if matches_everything(tree):
            if self._is_everything_rejected:
                return None, f"bad query {key!r}: position 0: it matches every document: {text}"
            _log.warning("query %r matches every document: %s", key, text)
        return encode_query(tree), None

    def _with(self, rows: pa.Table, **columns: Any) -> pa.Table:
        arrays = [
            columns[each.name]
            if each.name in columns
            else column_of(rows, each.name)
            if each.name in rows.column_names
            else pa.nulls(rows.num_rows, each.type)
            for each in self._schema
        ]
        return pa.table(arrays, schema=self._schema)
