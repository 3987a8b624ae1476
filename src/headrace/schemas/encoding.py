"""A value of JSON -> the bytes of a record of any type of schema, without what registries put before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.schemas.avro.encoding import encode_avro
from headrace.schemas.definition import SchemaType
from headrace.schemas.json_schema.encoding import JsonSchemaEncoder
from headrace.schemas.parsing import Parsed
from headrace.schemas.protobuf.encoding import ProtobufEncoder

Encode = Callable[[Any], bytes]
"""DoesNotFit if the value is not one of the schema."""


def encoder(parsed: Parsed) -> Encode:
    match parsed.type:
        case SchemaType.AVRO:
            return lambda value: encode_avro(parsed.schema, value)
        case SchemaType.JSON:
            return JsonSchemaEncoder(parsed.schema).encode
        case SchemaType.PROTOBUF:
            return ProtobufEncoder(parsed.schema).encode
