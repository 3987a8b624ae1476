"""What runs in Spark's Python workers: the records of an Arrow batch as rows, or as the reasons why they are bad.

The writers' schemas come from the registry, when a record with a new id arrives, and stay in the worker. If the
registry is unavailable, the batch waits, and then fails, to be tried again: no record is bad because of that.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from headrace.errors import HeadraceError
from headrace.pipeline.source.registered.avro_columns import AvroColumns
from headrace.pipeline.source.registered.json_columns import JsonColumns
from headrace.pipeline.source.registered.protobuf_columns import message_column
from headrace.pipeline.source.registered.subjects import ReaderSchema
from headrace.registered.client import RegistryClient
from headrace.registered.errors import BadRecord, RegistryUnavailable, RequestRejected
from headrace.registered.framing import PREFIX_BYTES, schema_id
from headrace.registered.schema import RegisteredSchema, SchemaText
from headrace.schemas.definition import SchemaType

PATIENCE_S = 60.0
"""How long a batch waits for a registry that is unavailable, such as during a restart, before it fails."""

RETRY_S = 0.25
"""Between two requests to a registry that is unavailable."""

GRACE_S = 2.0
"""After this time an id that the registry does not know is unknown: another process of the registry may have assigned
it a moment ago. Once for all new ids of an Arrow batch."""

UNKNOWN_S = 60.0
"""How long an id stays unknown before the registry is asked again."""

WRITERS_MAX = 1_000
"""Schemas of writers in a worker: more than a topic has in use. The least recently used are requested again."""

DECODINGS_MAX = 32
"""Sources of a worker."""

Decode = Callable[[bytes], Any]


class Columns(Protocol):
    type: pa.DataType
    """Of values as they were written."""

    def decoder(self, writer: SchemaText) -> Decode:
        """For the records of a writer's schema; BadRecord if none of them can be read."""

    def to_array(self, values: Sequence[Any]) -> pa.Array:
        """What `decoder` gave, or None. Any error of Arrow or Python if a value does not fit."""


class _Avro:
    def __init__(self, reader: ReaderSchema) -> None:
        from headrace.registered import avro

        self._avro = avro
        self._schema = reader.registered.schema.avro()
        columns = AvroColumns(self._schema)
        self.type, self._convert = columns.type, columns.convert

    def decoder(self, writer: SchemaText) -> Decode:
        decode, convert = self._avro.decoder(writer.avro(), self._schema), self._convert
        if convert is None:
            return lambda record: decode(record[PREFIX_BYTES:])
        return lambda record: convert(decode(record[PREFIX_BYTES:]))

    def to_array(self, values: Sequence[Any]) -> pa.Array:
        return pa.array(values, self.type)


class _Json:
    def __init__(self, reader: ReaderSchema) -> None:
        from headrace.registered import documents

        self._documents = documents
        columns = JsonColumns(reader.registered.schema.json_schema())
        self.type, self._convert = columns.type, columns.convert

    def decoder(self, writer: SchemaText) -> Decode:
        check, convert = self._documents.checker(writer.json_schema()), self._convert
        parse = self._documents.parse_document

        def decode(record: bytes) -> Any:
            document = parse(record[PREFIX_BYTES:])
            check(document)
            return convert(document)

        return decode

    def to_array(self, values: Sequence[Any]) -> pa.Array:
        return pa.array(values, self.type)


class _Protobuf:
    def __init__(self, reader: ReaderSchema) -> None:
        from headrace.registered import protobuf

        self._protobuf = protobuf
        messages = protobuf.Messages(reader.registered.schema.protobuf())
        self._name = messages.chosen(reader.message)
        self._kind = messages.kind(self._name)
        column = message_column(self._kind.DESCRIPTOR)
        self.type, self.to_array = column.type, column.to_array

    def decoder(self, writer: SchemaText) -> Decode:
        messages = self._protobuf.Messages(writer.protobuf())

        def decode(record: bytes) -> Any:
            name, body = self._protobuf.message_and_body(messages, record)
            if name != self._name:
                raise BadRecord(f"it is a {name}, and the source reads {self._name}")
            return self._protobuf.parse_message(self._kind, body)

        return decode


_COLUMNS: dict[SchemaType, Callable[[ReaderSchema], Columns]] = {
    SchemaType.AVRO: _Avro,
    SchemaType.JSON: _Json,
    SchemaType.PROTOBUF: _Protobuf,
}


def columns_of(reader: ReaderSchema) -> Columns:
    return _COLUMNS[reader.registered.schema.type](reader)


class Writers:
    """How the records of each writer's schema are decoded, by its id."""

    def __init__(
        self, client: RegistryClient, columns: Columns, known: Iterable[RegisteredSchema] = ()
    ) -> None:
        self._client = client
        self._columns = columns
        self._decoders: OrderedDict[int, Decode | BadRecord] = OrderedDict()
        self._unknown: OrderedDict[int, float] = OrderedDict()
        """By id, until when."""
        for each in known:
            self._add(each)

    def prepare(self, ids: Iterable[int]) -> None:
        """Request what is new among these ids."""
        now_s = time.monotonic()
        new = [each for each in ids if each not in self._decoders and self._unknown.get(each, 0.0) < now_s]
        unknown = [each for each in new if not self._request(each, now_s + PATIENCE_S)]
        if unknown:
            time.sleep(GRACE_S)
            for each in unknown:
                if not self._request(each, now_s + GRACE_S + PATIENCE_S):
                    _put(self._unknown, each, time.monotonic() + UNKNOWN_S)

    def decoder(self, schema_id: int) -> Decode:
        found = self._decoders.get(schema_id)
        if found is None:
            raise BadRecord(f"the registry at {self._client.shown} has no schema with id {schema_id}")
        if isinstance(found, BadRecord):
            raise found
        return found

    def _request(self, schema_id: int, deadline_s: float) -> bool:
        """False if the registry does not know the id."""
        while True:
            try:
                self._add(self._client.by_id(schema_id))
                return True
            except RequestRejected as error:
                if error.is_missing:
                    return False
                raise
            except RegistryUnavailable:
                if time.monotonic() >= deadline_s:
                    raise
            time.sleep(RETRY_S)

    def _add(self, registered: RegisteredSchema) -> None:
        try:
            found: Decode | BadRecord = self._columns.decoder(registered.schema)
        except (HeadraceError, BadRecord) as error:
            found = BadRecord(f"the schema with id {registered.id} can't be read: {error}")
        except Exception as error:  # of a library, about a schema that only other registries accept
            found = BadRecord(
                f"the schema with id {registered.id} can't be read: {type(error).__name__}: {error}"
            )
        _put(self._decoders, registered.id, found)


def _put(cache: OrderedDict[int, Any], schema_id: int, found: Any) -> None:
    cache[schema_id] = found
    while len(cache) > WRITERS_MAX:
        cache.popitem(last=False)


class Decoding:
    """Records as structs of `row` and `problem`: a bad record has no row, and a record without a value has neither."""

    def __init__(self, reader: ReaderSchema) -> None:
        self._columns = columns_of(reader)
        self.row_type = spark_units(self._columns.type)
        client = RegistryClient(reader.registry)
        known = (reader.registered, *reader.writers)
        self._writers = Writers(client, self._columns, known)

    def rows(self, records: Sequence[bytes | None]) -> pa.StructArray:
        problems: list[str | None] = [None] * len(records)
        values = self._values(records, problems)
        try:
            rows = self._columns.to_array(values).cast(self.row_type)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            rows = self._one_by_one(values, problems)
        return pa.StructArray.from_arrays([rows, pa.array(problems, pa.string())], names=["row", "problem"])

    def _values(self, records: Sequence[bytes | None], problems: list[str | None]) -> list[Any]:
        ids = [_id_or_problem(each) for each in records]
        self._writers.prepare({each for each in ids if isinstance(each, int)})
        decoders: dict[int, Decode] = {}
        values: list[Any] = [None] * len(records)
        for index, record in enumerate(records):
            if record is None:
                continue
            found = ids[index]
            try:
                if isinstance(found, BadRecord):
                    raise found
                assert found is not None
                if (decode := decoders.get(found)) is None:
                    decode = decoders[found] = self._writers.decoder(found)
                values[index] = decode(record)
            except BadRecord as error:
                problems[index] = str(error)
        return values

    def _one_by_one(self, values: Sequence[Any], problems: list[str | None]) -> pa.Array:
        """A value that no column can hold, such as the year 292,000, is a problem of its record alone."""
        arrays = []
        for index, value in enumerate(values):
            try:
                arrays.append(self._columns.to_array([value]).cast(self.row_type))
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                problems[index] = f"a value does not fit its column: {error}"
                arrays.append(pa.nulls(1, self.row_type))
        return pa.concat_arrays(arrays) if arrays else pa.nulls(0, self.row_type)


def _id_or_problem(record: bytes | None) -> int | BadRecord | None:
    if record is None:
        return None
    try:
        return schema_id(record)
    except BadRecord as error:
        return error


def spark_units(kind: pa.DataType) -> pa.DataType:
    """The type in Spark's unit of time."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, spark_units(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, spark_units(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(spark_units(kind.value_type))
    return kind


_decodings: OrderedDict[str, Decoding] = OrderedDict()


def decoding_of(reader_text: str) -> Decoding:
    """Kept for the next tasks of this worker."""
    found = _decodings.pop(reader_text, None) or Decoding(msgspec.json.decode(reader_text, type=ReaderSchema))
    _decodings[reader_text] = found
    while len(_decodings) > DECODINGS_MAX:
        _decodings.popitem(last=False)
    return found


def decode_batches(reader_text: str, batches: Iterable[pa.Array]) -> Iterator[pa.Array]:
    """The function of Spark's Arrow UDF."""
    for batch in batches:
        if batch.null_count == len(batch):
            # Spark has decoded them; the worker needs no schema.
            decoding = decoding_of(reader_text)
            yield pa.nulls(len(batch), pa.struct([("row", decoding.row_type), ("problem", pa.string())]))
        else:
            yield decoding_of(reader_text).rows(batch.to_pylist())
