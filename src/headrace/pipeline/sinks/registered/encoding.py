"""What runs in Spark's Python workers: rows as records with the id of a schema, or why a row is not of the schema.

A row that is not of the schema is rejected by the sink, and becomes a dead letter of its job.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Struct

from headrace.registered.errors import BadRecord
from headrace.registered.framing import path_bytes, prefix
from headrace.registered.schema import SchemaText
from headrace.schemas.definition import SchemaType

ENCODERS_MAX = 32
"""Sinks of a worker."""

Encode = Callable[[Any], bytes]

RESULT = pa.struct([("value", pa.binary()), ("problem", pa.string())])
RESULT_TYPE = "value BINARY, problem STRING"


class Encoding(Struct, frozen=True, kw_only=True):
    id: int
    schema: SchemaText
    message: str | None = None

    def to_text(self) -> str:
        return msgspec.json.encode(self).decode()


def encode_batches(encoding_text: str, batches: Iterable[pa.Array]) -> Iterator[pa.Array]:
    """The function of Spark's Arrow UDF: from rows, or from their JSON, to structs of `value` and `problem`. A row
    with a problem has its JSON as the value, for its dead letter."""
    encode = _encoder_of(encoding_text)
    for batch in batches:
        values: list[bytes | None] = []
        problems: list[str | None] = []
        for row in _rows(batch):
            try:
                if isinstance(row, BadRecord):
                    raise row
                values.append(None if row is None else encode(row))
                problems.append(None)
            except BadRecord as error:
                values.append(row.encode() if isinstance(row, str) else _json(row))
                problems.append(str(error))
        yield pa.StructArray.from_arrays(
            [pa.array(values, pa.binary()), pa.array(problems, pa.string())], fields=list(RESULT)
        )


def _json_encoder(encoding: Encoding) -> Encode:
    from headrace.registered.documents import checker, parse_document

    check, head = checker(encoding.schema.json_schema()), prefix(encoding.id)

    def encode(text: str) -> bytes:
        body = text.encode()
        check(parse_document(body))
        return head + body

    return encode


def _protobuf_encoder(encoding: Encoding) -> Encode:
    from headrace.pipeline.sinks.registered.protobuf_rows import filler
    from headrace.registered.protobuf import Messages

    messages = Messages(encoding.schema.protobuf())
    name = messages.chosen(encoding.message)
    kind = messages.kind(name)
    fill, head = filler(kind.DESCRIPTOR), prefix(encoding.id) + path_bytes(messages.path_of(name))

    def encode(row: Any) -> bytes:
        message = kind()
        try:
            fill(message, row)
            return head + bytes(message.SerializeToString())
        except Exception as error:  # what Protobuf raises depends on the type
            raise BadRecord(f"the row is not a {name}: {error}") from error

    return encode


_ENCODERS: dict[SchemaType, Callable[[Encoding], Encode]] = {
    SchemaType.JSON: _json_encoder,
    SchemaType.PROTOBUF: _protobuf_encoder,
}
_encoders: OrderedDict[str, Encode] = OrderedDict()


def _encoder_of(text: str) -> Encode:
    """Kept for the next tasks of this worker."""
    found = _encoders.pop(text, None)
    if found is None:
        encoding = msgspec.json.decode(text, type=Encoding)
        found = _ENCODERS[encoding.schema.type](encoding)
    _encoders[text] = found
    while len(_encoders) > ENCODERS_MAX:
        _encoders.popitem(last=False)
    return found


def _rows(batch: pa.Array) -> list[Any]:
    """A time that Python does not have, such as the year 12000, is a problem of its row alone."""
    try:
        found: list[Any] = batch.to_pylist()
        return found
    except (ValueError, OverflowError):
        return [_row(each) for each in batch]


def _row(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError) as error:
        return BadRecord(f"the row has a value that can't be written: {error}")


def _json(row: Any) -> bytes:
    if isinstance(row, BadRecord):
        return b"{}"
    return msgspec.json.encode(row, enc_hook=str)
