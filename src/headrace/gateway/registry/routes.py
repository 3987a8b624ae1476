"""The HTTP API of Confluent's schema registry: paths, parameters, codes and content types."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec
from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

from headrace.gateway.registry import errors
from headrace.gateway.registry.errors import RegistryError
from headrace.gateway.registry.negotiation import JSON_V1, OFFERED, decoded_body, response_type
from headrace.gateway.registry.records import Version, definition_fields, version_fields
from headrace.gateway.registry.registry import Registry
from headrace.gateway.registry.requests import ConfigBody, ModeBody, SchemaBody, decode_body
from headrace.schemas.definition import SchemaType

THREADS_MAX = 16
"""Requests that read, parse and compare at the same time. Writes take turns."""

BODY_FACTOR = 2
"""A schema is a JSON text within a JSON text, so its quotes are escaped."""

BODY_EXTRA_BYTES = 100_000
"""For what comes with a schema: references, metadata, rules."""

PROBED = frozenset({"/", "/master_available"})
"""Probes send any header Accept."""

T = TypeVar("T")


class RegistryRoute(APIRoute):
    """A subject may have slashes, which clients encode; so routes match the path as it was sent. Errors and content
    types are those of the registry, whatever the application around it does."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        raw_path = scope.get("raw_path")
        if scope["type"] != "http" or not raw_path:
            return super().matches(scope)
        match, child = super().matches({**scope, "path": raw_path.decode("latin-1").partition("?")[0]})
        if "path_params" in child:
            child["path_params"] = {name: unquote(str(text)) for name, text in child["path_params"].items()}
        return match, child

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_or_fail(request: Request) -> Response:
            media_type = JSON_V1
            try:
                if self.path not in PROBED:
                    media_type = response_type(request.headers.get("accept"))
                response = await handle(request)
            except RegistryError as error:
                response = _json({"error_code": error.code, "message": str(error)}, error.status)
            response.headers["content-type"] = media_type
            return response

        return handle_or_fail


def create_router(registry: Registry) -> APIRouter:
    """All routes of the registry. It is opened and closed by the caller."""
    router = APIRouter(route_class=RegistryRoute, tags=["schema registry"])
    Routes(registry).add_to(router)
    return router


class Routes:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._threads = CapacityLimiter(THREADS_MAX)

    def add_to(self, router: APIRouter) -> None:
        table: list[tuple[str, str, Callable[..., Awaitable[Response]]]] = [
            ("GET", "/schemas", self.list_schemas),
            ("GET", "/schemas/types", self.list_types),
            ("GET", "/schemas/ids/{schema_id}", self.get_schema),
            ("GET", "/schemas/ids/{schema_id}/schema", self.get_schema_text),
            ("GET", "/schemas/ids/{schema_id}/subjects", self.get_subjects_of_schema),
            ("GET", "/schemas/ids/{schema_id}/versions", self.get_versions_of_schema),
            ("GET", "/subjects", self.list_subjects),
            ("POST", "/subjects/{subject}", self.look_up),
            ("DELETE", "/subjects/{subject}", self.delete_subject),
            ("GET", "/subjects/{subject}/versions", self.list_versions),
            ("POST", "/subjects/{subject}/versions", self.register),
            ("GET", "/subjects/{subject}/versions/{version}", self.get_version),
            ("DELETE", "/subjects/{subject}/versions/{version}", self.delete_version),
            ("GET", "/subjects/{subject}/versions/{version}/schema", self.get_version_text),
            ("GET", "/subjects/{subject}/versions/{version}/referencedby", self.list_referrers),
            ("POST", "/compatibility/subjects/{subject}/versions", self.check_all),
            ("POST", "/compatibility/subjects/{subject}/versions/{version}", self.check_one),
            ("GET", "/config", self.get_config),
            ("PUT", "/config", self.set_config),
            ("DELETE", "/config", self.delete_config),
            ("GET", "/config/{subject}", self.get_config_of),
            ("PUT", "/config/{subject}", self.set_config_of),
            ("DELETE", "/config/{subject}", self.delete_config_of),
            ("GET", "/mode", self.get_mode),
            ("PUT", "/mode", self.set_mode),
            ("GET", "/mode/{subject}", self.get_mode_of),
            ("PUT", "/mode/{subject}", self.set_mode_of),
            ("DELETE", "/mode/{subject}", self.delete_mode_of),
            ("GET", "/contexts", self.list_contexts),
            ("GET", "/", self.show_root),
            ("GET", "/master_available", self.show_availability),
        ]
        for method, path, endpoint in table:
            router.add_api_route(
                path, endpoint, methods=[method], summary=endpoint.__doc__, response_model=None
            )

    # Schemas

    async def list_schemas(
        self,
        subjectPrefix: str = "",
        deleted: str = "false",
        latestOnly: str = "false",
        offset: str = "0",
        limit: str = "-1",
    ) -> Response:
        """Versions of all subjects"""
        found = await self._in_thread(lambda: self._registry.all_versions(deleted=_flag(deleted)))
        prefix = _prefix(subjectPrefix)
        wanted = [each for each in found if each.subject.startswith(prefix)]
        if _flag(latestOnly):
            wanted = list({each.subject: each for each in wanted}.values())
        return _json([version_fields(each) for each in _page(wanted, offset, limit)])

    async def list_types(self) -> Response:
        """Types of schemas"""
        return _json(["JSON", "PROTOBUF", "AVRO"])

    async def get_schema(
        self,
        schema_id: str,
        format: str = "",
        fetchMaxId: str = "false",
        includeSubjects: str = "false",
    ) -> Response:
        """The schema with this id"""
        number = _id(schema_id)
        versions = await self._in_thread(lambda: self._registry.of_id(number))
        definition, extra = versions[0].definition, versions[0].extra
        found: dict[str, Any] = definition_fields(definition, extra)
        found["schema"] = await self._text(versions[0], format)
        if _flag(fetchMaxId):
            found["maxId"] = self._registry.greatest_id()
        if _flag(includeSubjects):
            found["subjects"] = sorted({each.subject for each in versions if not each.is_deleted})
        return _json(found)

    async def get_schema_text(self, schema_id: str, format: str = "") -> Response:
        """The text of the schema with this id"""
        number = _id(schema_id)
        versions = await self._in_thread(lambda: self._registry.of_id(number))
        return _text(await self._text(versions[0], format))

    async def get_subjects_of_schema(
        self, schema_id: str, deleted: str = "false", subject: str = "", offset: str = "0", limit: str = "-1"
    ) -> Response:
        """Subjects that have the schema with this id"""
        versions = await self._versions_of_id(schema_id, deleted, subject)
        return _json(_page(sorted({each.subject for each in versions}), offset, limit))

    async def get_versions_of_schema(
        self, schema_id: str, deleted: str = "false", subject: str = "", offset: str = "0", limit: str = "-1"
    ) -> Response:
        """Subjects and versions that have the schema with this id"""
        versions = await self._versions_of_id(schema_id, deleted, subject)
        found = [{"subject": each.subject, "version": each.version} for each in versions]
        return _json(_page(found, offset, limit))

    # Subjects

    async def list_subjects(
        self,
        subjectPrefix: str = "",
        deleted: str = "false",
        deletedOnly: str = "false",
        offset: str = "0",
        limit: str = "-1",
    ) -> Response:
        """All subjects"""

        def listed() -> list[str]:
            live = self._registry.subjects(deleted=False)
            if not _flag(deleted) and not _flag(deletedOnly):
                return live
            known = self._registry.subjects(deleted=True)
            return sorted(set(known) - set(live)) if _flag(deletedOnly) else known

        found = await self._in_thread(listed)
        prefix = _prefix(subjectPrefix)
        return _json(_page([each for each in found if each.startswith(prefix)], offset, limit))

    async def list_versions(
        self,
        subject: str,
        deleted: str = "false",
        deletedOnly: str = "false",
        offset: str = "0",
        limit: str = "-1",
    ) -> Response:
        """The versions of a subject"""
        only = _flag(deletedOnly)
        found = await self._in_thread(
            lambda: self._registry.versions(subject, deleted=only or _flag(deleted))
        )
        return _json(_page([each.version for each in found if each.is_deleted or not only], offset, limit))

    async def get_version(
        self, subject: str, version: str, deleted: str = "false", format: str = ""
    ) -> Response:
        """A version of a subject"""
        found = await self._in_thread(
            lambda: self._registry.version(subject, version, deleted=_flag(deleted))
        )
        return _json(version_fields(found) | {"schema": await self._text(found, format)})

    async def get_version_text(
        self, subject: str, version: str, deleted: str = "false", format: str = ""
    ) -> Response:
        """The text of a version of a subject"""
        found = await self._in_thread(
            lambda: self._registry.version(subject, version, deleted=_flag(deleted))
        )
        return _text(await self._text(found, format))

    async def list_referrers(
        self, subject: str, version: str, deleted: str = "false", offset: str = "0", limit: str = "-1"
    ) -> Response:
        """Ids of the schemas that refer to a version"""
        found = await self._in_thread(
            lambda: self._registry.referrers(subject, version, deleted=_flag(deleted))
        )
        return _json(_page(sorted({each.id for each in found}), offset, limit))

    async def look_up(
        self,
        subject: str,
        request: Request,
        deleted: str = "false",
        format: str = "",
    ) -> Response:
        """The version of a subject that has this schema"""
        body = await self._body(request, SchemaBody)
        found = await self._in_thread(
            lambda: self._registry.look_up(subject, body.wanted(), deleted=_flag(deleted))
        )
        return _json(version_fields(found) | {"schema": await self._text(found, format)})

    async def register(self, subject: str, request: Request, normalize: str = "false") -> Response:
        """Register a schema: a new version of the subject, unless it has the schema"""
        body = await self._body(request, SchemaBody)
        found = await self._in_thread(
            lambda: self._registry.register(subject, body.wanted(), normalize=_flag(normalize))
        )
        return _json({"id": found.id})

    async def delete_subject(self, subject: str, permanent: str = "false") -> Response:
        """Delete all versions of a subject; for good with `permanent`"""
        found = await self._in_thread(
            lambda: self._registry.delete_subject(subject, permanent=_flag(permanent))
        )
        return _json(found)

    async def delete_version(self, subject: str, version: str, permanent: str = "false") -> Response:
        """Delete a version of a subject; for good with `permanent`"""
        found = await self._in_thread(
            lambda: self._registry.delete_version(subject, version, permanent=_flag(permanent))
        )
        return _json(found)

    # Compatibility

    async def check_all(self, subject: str, request: Request, verbose: str = "false") -> Response:
        """Whether a schema is compatible with the versions that the level of the subject requires"""
        return await self._check(subject, None, request, verbose)

    async def check_one(
        self, subject: str, version: str, request: Request, verbose: str = "false"
    ) -> Response:
        """Whether a schema is compatible with one version"""
        return await self._check(subject, version, request, verbose)

    async def _check(self, subject: str, version: str | None, request: Request, verbose: str) -> Response:
        body = await self._body(request, SchemaBody)
        try:
            conflict = await self._in_thread(lambda: self._registry.conflict(subject, body.wanted(), version))
            messages = [] if conflict is None else conflict.messages()
        except RegistryError as error:
            if not _flag(verbose) or error.code != errors.INVALID_SCHEMA:
                raise
            messages = [str(error)]
        found: dict[str, Any] = {"is_compatible": not messages}
        if _flag(verbose):
            found["messages"] = messages
        return _json(found)

    # Compatibility levels

    async def get_config(self) -> Response:
        """The compatibility level of all subjects"""
        return _json(
            {"compatibilityLevel": await self._in_thread(lambda: self._registry.compatibility(None))}
        )

    async def set_config(self, request: Request) -> Response:
        """Set the compatibility level of all subjects"""
        return await self._set_config(None, request)

    async def delete_config(self) -> Response:
        """Reset the compatibility level of all subjects"""
        return await self._delete_config(None)

    async def get_config_of(self, subject: str, defaultToGlobal: str = "false") -> Response:
        """The compatibility level of a subject"""
        found = await self._in_thread(
            lambda: self._registry.compatibility(subject, default_to_global=_flag(defaultToGlobal))
        )
        return _json({"compatibilityLevel": found})

    async def set_config_of(self, subject: str, request: Request) -> Response:
        """Set the compatibility level of a subject"""
        return await self._set_config(subject, request)

    async def delete_config_of(self, subject: str) -> Response:
        """Reset the compatibility level of a subject"""
        return await self._delete_config(subject)

    async def _set_config(self, subject: str | None, request: Request) -> Response:
        body = await self._body(request, ConfigBody)
        found = await self._in_thread(lambda: self._registry.set_compatibility(subject, body.compatibility))
        return _json({"compatibility": found})

    async def _delete_config(self, subject: str | None) -> Response:
        """Confluent's client and Redpanda's API have the one name, franz-go's client and Karapace the other."""
        found = await self._in_thread(lambda: self._registry.delete_compatibility(subject))
        return _json({"compatibilityLevel": found, "compatibility": found})

    # Modes

    async def get_mode(self) -> Response:
        """The mode of all subjects"""
        return _json({"mode": await self._in_thread(lambda: self._registry.mode(None))})

    async def set_mode(self, request: Request, force: str = "false") -> Response:
        """Set the mode of all subjects"""
        return await self._set_mode(None, request, force)

    async def get_mode_of(self, subject: str, defaultToGlobal: str = "false") -> Response:
        """The mode of a subject"""
        found = await self._in_thread(
            lambda: self._registry.mode(subject, default_to_global=_flag(defaultToGlobal))
        )
        return _json({"mode": found})

    async def set_mode_of(self, subject: str, request: Request, force: str = "false") -> Response:
        """Set the mode of a subject"""
        return await self._set_mode(subject, request, force)

    async def delete_mode_of(self, subject: str) -> Response:
        """Reset the mode of a subject"""
        return _json({"mode": await self._in_thread(lambda: self._registry.delete_mode(subject))})

    async def _set_mode(self, subject: str | None, request: Request, force: str) -> Response:
        body = await self._body(request, ModeBody)
        found = await self._in_thread(lambda: self._registry.set_mode(subject, body.mode, force=_flag(force)))
        return _json({"mode": found})

    async def list_contexts(self) -> Response:
        """The contexts of subjects: only the default one"""
        return _json(["."])

    # Probes

    async def show_root(self) -> Response:
        """Nothing: probes request it"""
        return _json({})

    async def show_availability(self) -> Response:
        """Whether a process serves the registry that can write, as Karapace reports it: each can"""
        return _json({"master_available": True})

    # Inside

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await to_thread.run_sync(work, limiter=self._threads)

    async def _body(self, request: Request, kind: type[T]) -> T:
        bytes_max = self._registry.limits.schema_bytes_max * BODY_FACTOR + BODY_EXTRA_BYTES
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > bytes_max:
                raise RegistryError(413, 413, f"the body of the request has more than {bytes_max:,} bytes")
        return decode_body(decoded_body(bytes(body), request.headers.get("content-type")), kind)

    async def _versions_of_id(self, schema_id: str, deleted: str, subject: str) -> list[Version]:
        number = _id(schema_id)
        versions = await self._in_thread(lambda: self._registry.of_id(number, deleted=_flag(deleted)))
        return [each for each in versions if subject in ("", each.subject)]

    async def _text(self, version: Version, format: str) -> str:
        if format == "serialized" and version.definition.type is SchemaType.PROTOBUF:
            return await self._in_thread(lambda: self._registry.descriptor(version))
        return version.definition.text


def _id(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise RegistryError(404, 404, "HTTP 404 Not Found")
    if len(text) > 10:
        raise errors.schema_not_found(text[:40])
    return int(text)


def _flag(text: str) -> bool:
    return text.lower() == "true"


def _prefix(text: str) -> str:
    """`:*:` is all contexts."""
    return text.removeprefix(":*:").removeprefix(":.:")


def _page(found: Sequence[T], offset: str, limit: str) -> Sequence[T]:
    try:
        first, count = int(offset[:12]), int(limit[:12])
    except ValueError:
        raise RegistryError(422, 422, "offset and limit are numbers") from None
    first = max(first, 0)
    return found[first:] if count < 0 else found[first : first + count]


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type=OFFERED[0])


def _text(text: str) -> Response:
    return Response(text, media_type=OFFERED[0])
