"""How the OpenAPI description shows the requests and responses of the registry."""

from __future__ import annotations

from typing import Any

from headrace.gateway.registry.negotiation import OFFERED

_STATUSES = {
    200: "Done",
    400: "The body is not JSON",
    403: "A page of another site",
    404: "There is no such subject, version or schema",
    406: "None of the accepted types is offered",
    408: "The body took too long",
    409: "The schema is incompatible with an earlier version",
    413: "The body is too large",
    415: "The content type is not supported",
    422: "The schema, the version, the level or the mode is wrong, or not allowed now",
    500: "The topic could not be read or written",
    503: "The same request may succeed later",
}
_ERROR = {
    "type": "object",
    "required": ["error_code", "message"],
    "properties": {"error_code": {"type": "integer"}, "message": {"type": "string"}},
}
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {
        "description": description,
        "content": {each: {"schema": {} if status == 200 else _ERROR} for each in OFFERED},
    }
    for status, description in _STATUSES.items()
}

_TEXT = {"type": "string"}
_SCHEMA = {
    "type": "object",
    "required": ["schema"],
    "properties": {
        "schema": {"type": "string", "description": "the text of the schema"},
        "schemaType": {"enum": ["AVRO", "JSON", "PROTOBUF"], "description": "AVRO by default"},
        "references": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "subject", "version"],
                "properties": {"name": _TEXT, "subject": _TEXT, "version": {"type": "integer"}},
            },
        },
        "metadata": {"type": "object"},
        "ruleSet": {"type": "object"},
        "id": {"type": "integer", "description": "in the mode IMPORT"},
        "version": {"type": "integer", "description": "in the mode IMPORT"},
    },
}


def body_of(method: str, path: str) -> dict[str, Any] | None:
    """The request of a route, if it has a body."""
    if method not in ("POST", "PUT"):
        return None
    kind = path.split("/")[1]
    name = {"config": "compatibility", "mode": "mode"}.get(kind)
    schema = _SCHEMA if name is None else {"type": "object", "required": [name], "properties": {name: _TEXT}}
    return {"requestBody": {"required": True, "content": {each: {"schema": schema} for each in OFFERED}}}
