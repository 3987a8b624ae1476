"""A value of JSON -> a Protobuf message: the first one of the schema."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from headrace.schemas.errors import DoesNotFit, InvalidSchema
from headrace.schemas.protobuf.parsing import ProtobufSchema

DEPTH_MAX = 100
"""That of Protobuf's own libraries."""


class ProtobufEncoder:
    """Built once for a schema: a pool of descriptors takes longer than a message."""

    def __init__(self, schema: ProtobufSchema) -> None:
        if not schema.file.message_type:
            raise InvalidSchema("the schema has no message", hint="define one")
        pool = DescriptorPool()
        for file in (*schema.imported, schema.file):
            pool.Add(file)
        package = f"{schema.file.package}." if schema.file.package else ""
        name = f"{package}{schema.file.message_type[0].name}"
        self._message: type[Message] = GetMessageClass(pool.FindMessageTypeByName(name))

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, dict):
            raise DoesNotFit(f"{value!r:.80} is not an object", hint="a message is an object in JSON")
        try:
            message = ParseDict(value, self._message(), max_recursion_depth=DEPTH_MAX)
            return bytes(message.SerializeToString(deterministic=True))
        except (ParseError, RecursionError, ValueError) as error:
            raise DoesNotFit(f"{error!s:.300}", hint="see the schema") from error
