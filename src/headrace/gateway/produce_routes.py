"""Routes that write: the paths of Confluent's REST proxy v2, which also take NDJSON, plain JSON and CloudEvents.

The status is 2xx only if the broker has acknowledged every record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from headrace.gateway import cloud_events, formats
from headrace.gateway.answers import ErrorAnswer, ProducedAnswer, as_json, media_type_of
from headrace.gateway.bodies import Bodies
from headrace.gateway.errors import BadBody, BrokerFailed, BrokerUnavailable
from headrace.gateway.formats import KeyRule
from headrace.gateway.publisher import DO_NOT_RETRY, Publisher, Written
from headrace.gateway.records import NewRecord
from headrace.gateway.slots import Slots
from headrace.gateway.topics import Topics, check_partition
from headrace.kafka.position import Position

TopicName = Annotated[str, Path(max_length=249, pattern="^[a-zA-Z0-9._-]+$", description="of a topic")]
PartitionNumber = Annotated[int, Path(ge=0, lt=2**31, description="of a partition")]
Key = Annotated[
    str | None, Query(max_length=10_000, description="the key of all events, if they are plain JSON or lines")
]
KeyField = Annotated[
    str | None,
    Query(
        max_length=1_000,
        description="the field of each event that has its key, if they are plain JSON or lines",
    ),
]

ERRORS: dict[int | str, dict[str, Any]] = {
    408: {"model": ErrorAnswer, "description": "The body took too long"},
    413: {"model": ErrorAnswer, "description": "The body is too large"},
    415: {"model": ErrorAnswer, "description": "The content type is not supported"},
    422: {"model": ErrorAnswer, "description": "The body is wrong"},
    429: {"model": ErrorAnswer, "description": "The broker is slower than the clients that write"},
    500: {"model": ErrorAnswer, "description": "The broker rejected records; `offsets` says which"},
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
BODY = {
    "requestBody": {
        "required": True,
        "content": {
            formats.REST_JSON_RECORDS: _records_of(_ANY, _ANY),
            formats.REST_BINARY_RECORDS: _records_of(_TEXT, _TEXT),
            formats.PLAIN: {"schema": {"description": "one event, or an array of events"}},
            formats.LINES: {"schema": {"type": "string", "description": "one event per line"}},
            cloud_events.STRUCTURED: {"schema": _CLOUD_EVENT},
            cloud_events.BATCHED: {"schema": {"type": "array", "minItems": 1, "items": _CLOUD_EVENT}},
        },
    }
}


def produce_router(
    topics: Topics, publisher: Publisher, bodies: Bodies, requests: Slots, *, records_max: int
) -> APIRouter:
    router = APIRouter(tags=["write"])
    options: dict[str, Any] = {
        "response_model": None,
        "openapi_extra": BODY,
        "responses": {200: {"model": ProducedAnswer}, **ERRORS},
    }

    async def write(topic: str, partition: int | None, request: Request, rule: KeyRule) -> Response:
        async with bodies.body(request) as body:
            with requests.slot():
                content_type, records = _records(request, body, rule)
                _check_count(records, records_max)
                count = await topics.partitions_to_write(topic)
                for number in {partition, *(each.partition for each in records)}:
                    if number is not None:
                        check_partition(topic, number, count)
                written = await publisher.publish(topic, records, partition=partition)
        is_rest = content_type.startswith("application/vnd.kafka")
        return _answer(topic, written, media_type_of(request, is_rest=is_rest))

    @router.post("/topics/{topic}", summary="Write records", **options)
    async def produce(
        topic: TopicName, request: Request, key: Key = None, key_field: KeyField = None
    ) -> Response:
        return await write(topic, None, request, KeyRule(key=key, field=key_field))

    @router.post(
        "/topics/{topic}/partitions/{partition}", summary="Write records to one partition", **options
    )
    async def produce_to_partition(
        topic: TopicName,
        partition: PartitionNumber,
        request: Request,
        key: Key = None,
        key_field: KeyField = None,
    ) -> Response:
        return await write(topic, partition, request, KeyRule(key=key, field=key_field))

    return router


def _records(request: Request, body: bytes, rule: KeyRule) -> tuple[str, list[NewRecord]]:
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if cloud_events.is_cloud_event(content_type, request.headers):
        return content_type, cloud_events.records_of(content_type, request.headers, body)
    return content_type, formats.records_of(content_type, body, rule)


def _check_count(records: Sequence[NewRecord], records_max: int) -> None:
    if len(records) > records_max:
        raise BadBody(
            f"the body has {len(records):,} records", hint=f"send at most {records_max:,} in one request"
        )


def _answer(topic: str, written: Sequence[Written], media_type: str) -> Response:
    answer: dict[str, Any] = {"offsets": written, "key_schema_id": None, "value_schema_id": None}
    failed = [each for each in written if each.error_code is not None]
    if not failed:
        return as_json({**answer, "position": _after(topic, written)}, media_type=media_type)
    kind = BrokerFailed if any(each.error_code == DO_NOT_RETRY for each in failed) else BrokerUnavailable
    error = {
        "error_code": kind.code,
        "message": f"{len(failed)} of {len(written)} records were not written: {failed[0].error}",
        "hint": "send those records again that have an error in `offsets`",
    }
    response = as_json(error | answer, status=kind.status, media_type=media_type)
    if kind.may_succeed_later:
        response.headers["Retry-After"] = "1"
    return response


def _after(topic: str, written: Sequence[Written]) -> str:
    ends: dict[int, int] = {}
    for each in written:
        assert each.partition is not None
        assert each.offset is not None
        ends[each.partition] = max(each.offset + 1, ends.get(each.partition, 0))
    return Position({topic: ends}).token()
