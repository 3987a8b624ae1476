"""Errors of requests, as Confluent's REST proxy has them: a status, and a code of more digits."""

from __future__ import annotations

from typing import ClassVar

from headrace.errors import HeadraceError


class GatewayError(HeadraceError):
    """A request that is not done."""

    status: ClassVar[int] = 400
    code: ClassVar[int] = 400
    may_succeed_later: ClassVar[bool] = False
    """Then the response has Retry-After."""


class BadRequest(GatewayError):
    """A parameter, a header or a position is wrong."""


class BadBody(GatewayError):
    """The body is not what its content type says."""

    status = code = 422


class NoKeySchema(GatewayError):
    status = 422
    code = 42201


class NoValueSchema(GatewayError):
    status = 422
    code = 42202


class ValueRejected(GatewayError):
    """A schema is wrong, or a value is not one of its schema."""

    status = 422
    code = 42205


class SchemaRejected(GatewayError):
    """The registry does not take the schema, such as an incompatible one. The status is that of Confluent's proxy."""

    status = 408
    code = 40801


class UnknownTopic(GatewayError):
    status = 404
    code = 40401


class UnknownPartition(GatewayError):
    status = 404
    code = 40402


class NoSuchPath(GatewayError):
    status = code = 404


class MethodNotAllowed(GatewayError):
    status = code = 405


class BodyTooSlow(GatewayError):
    status = code = 408


class BodyTooLarge(GatewayError):
    status = code = 413


class UnsupportedContentType(GatewayError):
    status = code = 415


class ForeignOrigin(GatewayError):
    """A page of another site, or a request with the name of another host."""

    status = code = 403


class TooManyRecords(GatewayError):
    """The broker does not acknowledge as fast as clients write."""

    status = code = 429
    may_succeed_later = True


class TooManyRequests(GatewayError):
    """From one client."""

    status = code = 429
    may_succeed_later = True


class Overloaded(GatewayError):
    status = code = 503
    may_succeed_later = True


class BrokerFailed(GatewayError):
    """The broker rejected the request."""

    status = 500
    code = 50002


class BrokerUnavailable(GatewayError):
    status = 503
    code = 50003
    may_succeed_later = True
