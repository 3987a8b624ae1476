"""What readers and writers of records request of a schema registry, over its HTTP API.

One request is one attempt. `RegistryUnavailable` means that it may be repeated; who waits, and for how long, decides
the caller. Nothing is cached here.
"""

from __future__ import annotations

import base64
import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.redaction import redacted, scrubbed
from headrace.registered.errors import RegistryUnavailable, RequestRejected
from headrace.registered.schema import Referenced, RegisteredSchema, SchemaText
from headrace.schemas.definition import Definition, SchemaType

TIMEOUT_S = 10.0
"""For one request to one address. A registry responds within milliseconds; one whose topic is busy needs seconds."""

RESPONSE_BYTES_MAX = 16 * 1024 * 1024
"""Of one response. Registries take schemas of about a megabyte."""

REFERENCES_MAX = 200
"""Of one schema, with those of its references: as many as Headrace's registry takes."""

NO_SUBJECT = 40401

_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
_STATUS_OF_OVERLOAD = 429


T = TypeVar("T")


class _Found(Struct):
    text: str = msgspec.field(name="schema")
    type: SchemaType = msgspec.field(name="schemaType", default=SchemaType.AVRO)
    references: list[dict[str, Any]] | None = None
    id: int | None = None
    version: int | None = None


class RegistryClient:
    """A registry at one address, or at several, with commas, of which any may answer. User and password are those of
    the address: `https://user:password@registry.example`."""

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self._addresses = [_Address(each.strip()) for each in url.split(",") if each.strip()]
        if not self._addresses:
            raise HeadraceError(
                "the address of the registry is empty", hint='registry="http://127.0.0.1:8082"'
            )
        self._timeout_s = timeout_s
        # No proxy of the environment: a registry is beside its broker.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    @property
    def shown(self) -> str:
        """The addresses, without passwords."""
        return ", ".join(each.shown for each in self._addresses)

    def by_id(self, schema_id: int) -> RegisteredSchema:
        found = self._get(f"/schemas/ids/{schema_id}")
        return RegisteredSchema(id=schema_id, schema=self._with_references(found))

    def version(self, subject: str, version: int | None = None) -> RegisteredSchema:
        """Without a number, the latest."""
        found = self._get(f"/subjects/{_quoted(subject)}/versions/{version or 'latest'}")
        return self._of_subject(found, subject)

    def all_versions(self, subject: str, *, newest: int) -> list[RegisteredSchema]:
        """At most so many, oldest first."""
        body = self._request("GET", f"/subjects/{_quoted(subject)}/versions")
        return [self.version(subject, each) for each in _decoded(body, list[int], self.shown)[-newest:]]

    def register(self, subject: str, definition: Definition) -> int:
        """The id of the schema, which the subject may have already."""
        body: dict[str, Any] = {"schema": definition.text, "schemaType": definition.type.value}
        if definition.references:
            body["references"] = [msgspec.structs.asdict(each) for each in definition.references]
        response = self._request("POST", f"/subjects/{_quoted(subject)}/versions", msgspec.json.encode(body))
        found: int = _decoded(response, dict[str, Any], self.shown)["id"]
        return found

    def get(self, path: str, kind: type[T]) -> T:
        """The response to any other request."""
        found: T = _decoded(self._request("GET", path), kind, self.shown)
        return found

    def _get(self, path: str) -> _Found:
        return self.get(path, _Found)

    def _of_subject(self, found: _Found, subject: str) -> RegisteredSchema:
        if found.id is None:
            raise _no_registry(self.shown, "a version of a subject has no id")
        return RegisteredSchema(
            id=found.id, subject=subject, version=found.version, schema=self._with_references(found)
        )

    def _with_references(self, found: _Found) -> SchemaText:
        return _Resolution(self._get).of(found, ())

    def _request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """Of the first address that answers."""
        problem: RegistryUnavailable | None = None
        for address in self._addresses:
            try:
                return self._sent(address, method, path, body)
            except RegistryUnavailable as error:
                problem = error
        assert problem is not None, "there is an address"
        raise problem

    def _sent(self, address: _Address, method: str, path: str, body: bytes | None) -> bytes:
        headers = {"Accept": _ACCEPT, "Content-Type": "application/vnd.schemaregistry.v1+json"}
        request = urllib.request.Request(
            address.base + path, data=body, method=method, headers={**headers, **address.headers}
        )
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                content: bytes = response.read(RESPONSE_BYTES_MAX + 1)
        except urllib.error.HTTPError as error:
            raise _rejection(error, address.shown) from error
        except (OSError, http.client.HTTPException) as error:
            reason = scrubbed(str(getattr(error, "reason", error)), address.base)
            raise RegistryUnavailable(
                f"no schema registry answers at {address.shown}: {reason}",
                hint="start it (`headrace gateway` has one), or set registry to its address",
            ) from error
        if len(content) > RESPONSE_BYTES_MAX:
            raise _no_registry(address.shown, f"a response has more than {RESPONSE_BYTES_MAX:,} bytes")
        return content


class _Address:
    def __init__(self, url: str) -> None:
        self.shown = redacted(url)
        try:
            parts = urllib.parse.urlsplit(url)
            host, user, password = parts.hostname, parts.username, parts.password
        except ValueError:
            host = None
        if host is None or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
            raise HeadraceError(
                f"{self.shown} is not the address of a schema registry",
                hint="write http://HOST:PORT, such as http://127.0.0.1:8082",
            )
        self.base = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        self.headers: dict[str, str] = {}
        if user is not None:
            pair = f"{urllib.parse.unquote(user)}:{urllib.parse.unquote(password or '')}"
            self.headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"


class _Resolution:
    """Fetches references, each of them once."""

    def __init__(self, get: Any) -> None:
        self._get = get
        self._known: dict[tuple[str, int], SchemaText] = {}

    def of(self, found: _Found, path: tuple[tuple[str, int], ...]) -> SchemaText:
        referenced = []
        for each in found.references or ():
            place = (str(each["subject"]), int(each["version"]))
            if place in path:
                raise HeadraceError(
                    f"the schema {place[0]}, version {place[1]}, refers to itself",
                    hint="register it again without",
                )
            referenced.append(Referenced(name=str(each["name"]), schema=self._at(place, (*path, place))))
        return SchemaText(text=found.text, type=found.type, referenced=tuple(referenced))

    def _at(self, place: tuple[str, int], path: tuple[tuple[str, int], ...]) -> SchemaText:
        if place not in self._known:
            if len(self._known) >= REFERENCES_MAX:
                raise HeadraceError(
                    f"a schema has more than {REFERENCES_MAX} references", hint="merge some of its types"
                )
            subject, version = place
            self._known[place] = self.of(
                self._get(f"/subjects/{_quoted(subject)}/versions/{version}?deleted=true"), path
            )
        return self._known[place]


def _rejection(error: urllib.error.HTTPError, shown: str) -> HeadraceError:
    try:
        found = msgspec.json.decode(error.read(RESPONSE_BYTES_MAX))
        code, message = int(found["error_code"]), str(found["message"])
    except (msgspec.DecodeError, OSError, KeyError, TypeError, ValueError, http.client.HTTPException):
        code, message = error.code, str(error.reason)
    if error.code >= 500 or error.code == _STATUS_OF_OVERLOAD:
        return RegistryUnavailable(
            f"the schema registry at {shown} responds with {error.code}: {message}", hint="see its log"
        )
    return RequestRejected(f"the schema registry at {shown}: {message}", hint=_hint(error.code), code=code)


def _hint(status: int) -> str:
    return {
        401: "write user and password into the address: https://USER:PASSWORD@HOST",
        403: "the user of the address needs rights to this subject",
        404: "is this the registry that the records were written with?",
        409: "change the schema so that it is compatible, or the compatibility level of the subject",
        422: "see the message",
    }.get(status, "")


def _decoded(content: bytes, kind: Any, shown: str) -> Any:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as error:
        raise _no_registry(shown, str(error)) from error


def _no_registry(shown: str, reason: str) -> HeadraceError:
    return HeadraceError(
        f"what answers at {shown} is not a schema registry: {reason}", hint="check the address in `registry`"
    )


def _quoted(subject: str) -> str:
    return urllib.parse.quote(subject, safe="")


def subjects_of(topics: Sequence[str], *, is_key: bool = False) -> list[str]:
    """The names that serializers use by default."""
    return [f"{topic}-{'key' if is_key else 'value'}" for topic in topics]
