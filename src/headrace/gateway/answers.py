"""The JSON of responses. The models document it on the page `/docs`; values are encoded by msgspec."""

from __future__ import annotations

import random
from typing import Any

import msgspec
from confluent_kafka import KafkaError
from fastapi import Request, Response
from pydantic import BaseModel, Field

from headrace.errors import HeadraceError
from headrace.gateway.errors import (
    BadRequest,
    BrokerFailed,
    BrokerUnavailable,
    ForeignOrigin,
    GatewayError,
    UnknownTopic,
)
from headrace.http_hosts import HostNotServed
from headrace.kafka.errors import RequestFailed
from headrace.kafka.retries import TRANSIENT

REST_JSON = "application/vnd.kafka.v2+json"
PLAIN_JSON = "application/json"

_UNAVAILABLE = TRANSIENT | {KafkaError._ALL_BROKERS_DOWN, KafkaError._MSG_TIMED_OUT, None}


class WrittenAnswer(BaseModel):
    partition: int | None
    offset: int | None
    error_code: int | None = Field(description="1: do not retry; 2: may succeed later; null: acknowledged")
    error: str | None


class ProducedAnswer(BaseModel):
    offsets: list[WrittenAnswer] = Field(description="one for each record, in the order of the request")
    key_schema_id: int | None = None
    value_schema_id: int | None = None
    position: str | None = Field(
        description="after these records: for `at_least` of a view, or to read on from here; null if the overload "
        "policy is not `block`"
    )


class BrokersAnswer(BaseModel):
    brokers: list[int]


class ReplicaAnswer(BaseModel):
    broker: int
    leader: bool
    in_sync: bool


class PartitionAnswer(BaseModel):
    partition: int
    leader: int
    replicas: list[ReplicaAnswer]


class TopicAnswer(BaseModel):
    name: str
    configs: dict[str, str | None]
    partitions: list[PartitionAnswer]


class OffsetsAnswer(BaseModel):
    beginning_offset: int
    end_offset: int


class HeaderAnswer(BaseModel):
    name: str
    value: str | None
    value_base64: str | None = Field(default=None, description="of a header that is not text")


class RecordAnswer(BaseModel):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: str | None
    key_base64: str | None = Field(default=None, description="instead of `key`, of a key that is not text")
    value: Any
    value_base64: str | None = Field(
        default=None, description="instead of `value`, of a value that does not have the format"
    )
    headers: list[HeaderAnswer] = Field(default=[])


class GapAnswer(BaseModel):
    topic: str
    partition: int
    first: int = Field(description="the first offset that is missing")
    next: int = Field(description="the first offset that exists again")


class RecordsAnswer(BaseModel):
    records: list[RecordAnswer]
    position: str = Field(description="for `position`: continue here")
    at_end: bool = Field(description="whether these were the last records of all partitions")
    gaps: list[GapAnswer] = Field(description="records that retention deleted before they were read")


class ErrorAnswer(BaseModel):
    error_code: int = Field(description="the status, with more digits for some errors")
    message: str
    hint: str = Field(description="what to do next")


def error(description: str) -> dict[str, Any]:
    """Of a route, for the documentation."""
    return {"model": ErrorAnswer, "description": description, "content": {REST_JSON: {}}}


def as_json(value: object, *, status: int = 200, media_type: str = PLAIN_JSON) -> Response:
    return Response(msgspec.json.encode(value), status, media_type=media_type)


def media_type_of(request: Request, *, is_rest: bool = False) -> str:
    """What the client accepts. Clients of the REST proxy expect its own type, unless they ask for plain JSON."""
    accepted = request.headers.get("accept", "")
    if "vnd.kafka" in accepted:
        return REST_JSON
    return REST_JSON if is_rest and PLAIN_JSON not in accepted else PLAIN_JSON


def as_gateway_error(error: HeadraceError) -> GatewayError:
    """With the status of the response."""
    if isinstance(error, GatewayError):
        return error
    kind: type[GatewayError] = ForeignOrigin if isinstance(error, HostNotServed) else BadRequest
    if isinstance(error, RequestFailed):
        kind = BrokerUnavailable if error.code in _UNAVAILABLE else BrokerFailed
        if error.code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            kind = UnknownTopic
    return kind(error.message, hint=error.hint)


def error_answer(error: HeadraceError) -> dict[str, Any]:
    found = as_gateway_error(error)
    return {"error_code": found.code, "message": found.message, "hint": found.hint}


def error_response(
    error: HeadraceError,
    *,
    retry_after_s_max: int,
    retry_after_s_min: int = 1,
    media_type: str = PLAIN_JSON,
) -> Response:
    found = as_gateway_error(error)
    response = as_json(error_answer(found), status=found.status, media_type=media_type)
    if found.may_succeed_later:
        response.headers["Retry-After"] = retry_after(retry_after_s_max, s_min=retry_after_s_min)
    return response


def retry_after(s_max: int, *, s_min: int = 1) -> str:
    """Not the same for all: clients that are rejected together must not come back together."""
    return str(s_min + random.randint(0, s_max - 1))
