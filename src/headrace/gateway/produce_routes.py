"""Routes that write: the paths of Confluent's REST proxy v2, which also take NDJSON, plain JSON and CloudEvents.

The status is 200 only if the broker has acknowledged every record, and 202 if they are in the buffer on disk.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from headrace.gateway import cloud_events, formats, schema_formats
from headrace.gateway.answers import REST_JSON, ProducedAnswer, as_json, error, media_type_of, retry_after
from headrace.gateway.bodies import Bodies
from headrace.gateway.edge_publisher import EdgePublisher
from headrace.gateway.errors import (
    BadBody,
    BadRequest,
    BrokerFailed,
    BrokerUnavailable,
    GatewayError,
    TooManyRecords,
)
from headrace.gateway.formats import KeyRule
from headrace.gateway.publisher import DO_NOT_RETRY, Outcome, Publisher, Written
from headrace.gateway.records import NewRecord
from headrace.gateway.schema_formats import Encoded, SchemaFormats
from headrace.gateway.settings import GatewaySettings
from headrace.gateway.slots import Slots
from headrace.gateway.topics import Topics, check_partition
from headrace.http_parameters import check_parameters
from headrace.kafka.position import Position

TopicName = Annotated[str, Path(max_length=249, pattern="^[a-zA-Z0-9._-]+$", description="of a topic")]
PARTITION_DIGITS_MAX = 9
NO_KEY = KeyRule()

PartitionNumber = Annotated[int, Path(ge=0, lt=2**31, description="of a partition")]
ERRORS: dict[int | str, dict[str, Any]] = {
    408: error("The body took too long"),
    413: error("The body is too large"),
    415: error("The content type is not supported"),
    422: error("The body is wrong, or the broker rejects records of it: `offsets` says which"),
    429: error("The broker is slower than the clients that write"),
    500: error("The broker failed; `offsets` says for which records"),
}

_ANY: dict[str, Any] = {}
_NUMBER = {"type": "integer", "minimum": 0, "nullable": True}
_TEXT = {"type": "string", "nullable": True}


def _records_of(key: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    record = {"type": "object", "properties": {"key": key, "value": value, "partition": _NUMBER}}
    return {
        "schema": {
            "type": "object",
            "required": ["records"],
            "properties": {"records": {"type": "array", "minItems": 1, "items": record}},
        }
    }


_CLOUD_EVENT = {
    "type": "object",
    "required": ["specversion", "id", "source", "type"],
    "properties": {
        "specversion": {"const": "1.0"},
        "id": {"type": "string", "minLength": 1},
        "source": {"type": "string", "minLength": 1},
        "type": {"type": "string", "minLength": 1},
        "data": {},
    },
    "additionalProperties": False,
}
_WITH_SCHEMA = _records_of(_ANY, _ANY)
_WITH_SCHEMA["schema"]["properties"] |= {
    "key_schema": _TEXT,
    "key_schema_id": _NUMBER,
    "value_schema": _TEXT,
    "value_schema_id": _NUMBER,
}
_CONTENT = {
    formats.REST_JSON_RECORDS: _records_of(_ANY, _ANY),
    formats.REST_BINARY_RECORDS: _records_of(_TEXT, _TEXT),
    formats.PLAIN: {"schema": {"description": "one event, or an array of events"}},
    formats.LINES: {"schema": {"type": "string", "description": "one event per line"}},
    cloud_events.STRUCTURED: {"schema": _CLOUD_EVENT},
    cloud_events.BATCHED: {"schema": {"type": "array", "minItems": 1, "items": _CLOUD_EVENT}},
}


def _body(*, with_schemas: bool) -> dict[str, Any]:
    more = dict.fromkeys(schema_formats.TYPES, _WITH_SCHEMA) if with_schemas else {}
    return {"requestBody": {"required": True, "content": _CONTENT | more}}


def _parameter(name: str, where: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "in": where,
        "description": description,
        "required": where == "path",
        "schema": schema,
    }


TOPIC = _parameter("topic", "path", "of a topic", {"type": "string", "pattern": "^[a-zA-Z0-9._-]{1,249}$"})
PARTITION = _parameter("partition", "path", "of a partition", {"type": "integer", "minimum": 0})
KEY = _parameter("key", "query", "the key of all events, if they are plain JSON or lines", {"type": "string"})
KEY_FIELD = _parameter(
    "key_field",
    "query",
    "the field of each event that has its key, if they are plain JSON or lines",
    {"type": "string"},
)
PARAMETERS = ("key", "key_field")


def produce_router(
    topics: Topics,
    publisher: Publisher | EdgePublisher,
    bodies: Bodies,
    requests: Slots,
    settings: GatewaySettings,
    *,
    with_schemas: SchemaFormats | None = None,
) -> APIRouter:
    """Parameters are declared by hand: FastAPI takes longer to check them than to do all else but the records."""
    router = APIRouter(tags=["write"])
    body = _body(with_schemas=with_schemas is not None)
    options: dict[str, Any] = {
        "response_model": None,
        "responses": {
            200: {"model": ProducedAnswer, "content": {REST_JSON: {}}},
            202: {
                "model": ProducedAnswer,
                "content": {REST_JSON: {}},
                "description": "The records are in the buffer on disk",
            },
            **ERRORS,
        },
    }

    async def write(topic: str, partition: int | None, request: Request) -> Response:
        rule = _key_rule(request)
        async with bodies.body(request) as content:
            with requests.slot():
                content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
                if content_type in schema_formats.TYPES and with_schemas is not None:
                    await topics.partitions_to_write(topic)  # before a schema is registered for it
                    encoded = await topics.run(
                        functools.partial(with_schemas.records_of, content_type, topic, content)
                    )
                else:
                    encoded = _without_schema(
                        _records(request, content_type, content, rule, records_max=settings.records_max)
                    )
                if not encoded.records:
                    raise BadBody("the body has no records", hint="send at least one")
                count = await topics.partitions_to_write(topic)
                _check_partitions(topic, partition, encoded.records, count)
                outcome = await publisher.publish(topic, encoded.records, partition=partition)
        is_rest = content_type.startswith("application/vnd.kafka")
        return _answer(topic, outcome, encoded, media_type_of(request, is_rest=is_rest), settings)

    @router.post(
        "/topics/{topic}",
        summary="Write records",
        openapi_extra={"parameters": [TOPIC, KEY, KEY_FIELD], **body},
        **options,
    )
    async def produce(request: Request) -> Response:
        return await write(request.path_params["topic"], None, request)

    @router.post(
        "/topics/{topic}/partitions/{partition}",
        summary="Write records to one partition",
        openapi_extra={"parameters": [TOPIC, PARTITION, KEY, KEY_FIELD], **body},
        **options,
    )
    async def produce_to_partition(request: Request) -> Response:
        partition = request.path_params["partition"]
        if not partition.isdecimal() or len(partition) > PARTITION_DIGITS_MAX:
            raise BadRequest(f"{partition[:50]!r} is not the number of a partition", hint="they begin with 0")
        return await write(request.path_params["topic"], int(partition), request)

    return router


def _key_rule(request: Request) -> KeyRule:
    if not request.scope["query_string"]:
        return NO_KEY
    check_parameters(request, PARAMETERS)
    return KeyRule(key=request.query_params.get("key"), field=request.query_params.get("key_field"))


def _check_partitions(topic: str, partition: int | None, records: Sequence[NewRecord], count: int) -> None:
    for number in {partition, *[each.partition for each in records]}:
        if number is not None:
            check_partition(topic, number, count)


def _records(
    request: Request, content_type: str, body: bytes, rule: KeyRule, *, records_max: int
) -> list[NewRecord]:
    if cloud_events.is_cloud_event(content_type, request.headers):
        return cloud_events.records_of(content_type, request.headers, body, records_max=records_max)
    return formats.records_of(content_type, body, rule, records_max=records_max)


def _without_schema(records: Sequence[NewRecord]) -> Encoded:
    return Encoded(records=records, key_schema_id=None, value_schema_id=None)


def _answer(
    topic: str, outcome: Outcome, encoded: Encoded, media_type: str, settings: GatewaySettings
) -> Response:
    written = outcome.written
    answer: dict[str, Any] = {
        "offsets": written,
        "key_schema_id": encoded.key_schema_id,
        "value_schema_id": encoded.value_schema_id,
    }
    failed = [each for each in written if each.error_code is not None]
    if not failed:
        status = 202 if outcome.is_buffered else 200
        return as_json({**answer, "position": _after(topic, written)}, status=status, media_type=media_type)
    kind: type[GatewayError] = TooManyRecords if outcome.is_overloaded else BrokerUnavailable
    if any(each.error_code == DO_NOT_RETRY for each in failed):
        kind = BadBody if outcome.is_rejected else BrokerFailed
    error = {
        "error_code": kind.code,
        "message": f"{len(failed)} of {len(written)} records were not written: {failed[0].error}",
        "hint": "`offsets` says which; do not send the others again",
    }
    response = as_json(error | answer, status=kind.status, media_type=media_type)
    if kind.may_succeed_later:
        response.headers["Retry-After"] = retry_after(settings.retry_after_s_max)
    return response


def _after(topic: str, written: Sequence[Written]) -> str | None:
    """None if the offsets are unknown."""
    ends: dict[int, int] = {}
    for each in written:
        if each.partition is None or each.offset is None:
            return None
        if each.offset >= ends.get(each.partition, 0):
            ends[each.partition] = each.offset + 1
    return Position({topic: ends}).token()
