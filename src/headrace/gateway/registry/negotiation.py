"""The content types of the registry's API: which one a client gets, and how the body of a request is decoded."""

from __future__ import annotations

from headrace.gateway.registry.errors import RegistryError

JSON_V1 = "application/vnd.schemaregistry.v1+json"
OFFERED = (JSON_V1, "application/vnd.schemaregistry+json", "application/json")
_ACCEPTED = (*OFFERED, "application/octet-stream")
_CHARSETS = ("utf-8", "utf-16", "utf-32", "us-ascii", "iso-8859-1")

ACCEPT_CHARS_MAX = 2_000
"""A browser sends some hundred."""


def response_type(accept: str | None) -> str:
    """The offered type that the client prefers; the first one if it has no preference."""
    ranges = _ranges(accept) if accept and accept.strip() else [("*/*", 1.0)]
    best = max(OFFERED, key=lambda offered: _quality(offered, ranges))  # the first of equal ones
    if _quality(best, ranges) <= 0:
        raise RegistryError(406, 406, "HTTP 406 Not Acceptable")
    return best


def decoded_body(body: bytes, content_type: str | None) -> str:
    """The text of a body. A client that sends no type sends JSON."""
    name, *parameters = (content_type or JSON_V1).split(";")
    if name.strip().lower() not in _ACCEPTED:
        raise RegistryError(415, 415, "HTTP 415 Unsupported Media Type")
    charset = "utf-8"
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip().lower() == "charset":
            charset = value.strip().strip('"').lower()
    if charset not in _CHARSETS:
        raise RegistryError(415, 415, "HTTP 415 Unsupported Media Type", hint=f"charset={charset[:40]}")
    try:
        return body.decode(charset)
    except UnicodeDecodeError:
        raise RegistryError(400, 400, f"the body is not {charset}") from None


def _ranges(accept: str) -> list[tuple[str, float]]:
    if len(accept) > ACCEPT_CHARS_MAX:
        raise RegistryError(406, 406, "HTTP 406 Not Acceptable", hint="the header Accept is too long")
    found = []
    for part in accept.split(","):
        name, *parameters = part.split(";")
        quality = 1.0
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip() == "q":
                quality = _number(value)
        found.append((name.strip().lower(), quality))
    return found


def _number(text: str) -> float:
    try:
        return min(max(float(text), 0.0), 1.0)
    except ValueError:
        return 0.0


def _quality(offered: str, ranges: list[tuple[str, float]]) -> float:
    return max((quality for name, quality in ranges if _matches(name, offered)), default=0.0)


def _matches(wanted: str, offered: str) -> bool:
    kind, _, subtype = wanted.partition("/")
    if kind == "*":
        return True
    return wanted == offered or (subtype == "*" and offered.startswith(f"{kind}/"))
