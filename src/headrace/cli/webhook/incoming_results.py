"""What `headrace webhook in` prints as JSON. No field has a secret, but for one that was just generated."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.cli.output import Shape, result


@result("webhook in add", "webhook in rotate")
class StoredSource(Struct, frozen=True, kw_only=True):
    name: str
    kind: Annotated[str, "how its requests are signed"]
    topic: str
    path: Annotated[str, "of the gateway, for POST"]
    secret: Annotated[str | None, "if it was generated: it is shown only now"]


@result("webhook in list", shape=Shape.LIST)
class ListedSource(Struct, frozen=True, kw_only=True):
    name: str
    kind: str
    topic: str
    path: Annotated[str, "of the gateway, for POST"]
    secrets: Annotated[int, "that are valid"]


@result("webhook in show")
class ShownSource(Struct, frozen=True, kw_only=True):
    name: str
    kind: str
    signed_by: Annotated[str, "what is verified"]
    topic: str
    path: Annotated[str, "of the gateway, for POST"]
    secrets: Annotated[list[str], "until when each of them is valid; never the secret"]
    key: Annotated[str | None, "the field or header with the key of the events"]
    id: Annotated[str | None, "the field or header by which a repeated request is known"]
    event: Annotated[str | None, "the field or header with the type of the events"]
    headers: Annotated[list[str], "of the request that the events have, too"]
    tolerance_s: Annotated[int, "how much the time of a signature may differ, in both directions"]
    window_s: Annotated[int, "how long a request is known"]
    body_bytes_max: int
    rate_per_s_max: int


@result("webhook in remove")
class RemovedSource(Struct, frozen=True, kw_only=True):
    name: str
    done: Annotated[str, "what was done"]


@result("webhook in test")
class Tested(Struct, frozen=True, kw_only=True):
    url: str
    status: Annotated[int | None, "of the response; null with --curl"]
    response: Annotated[str | None, "null with --curl"]
    curl: Annotated[str, "the same request as a command"]
