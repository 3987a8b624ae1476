"""The HTTP API of Confluent's schema registry: paths, parameters, codes and content types."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from headrace.gateway.bodies import Bodies
from headrace.gateway.registry import errors
from headrace.gateway.registry.description import RESPONSES, body_of
from headrace.gateway.registry.errors import RegistryError
from headrace.gateway.registry.exchange import (
    Exchange,
    RegistryRoute,
    is_set,
    json_response,
    page,
    prefix_of,
    schema_id_of,
    text_response,
)
from headrace.gateway.registry.records import Version, definition_fields, version_fields
from headrace.gateway.registry.registry import Registry
from headrace.gateway.registry.requests import SchemaBody
from headrace.gateway.registry.settings_routes import SettingsRoutes
from headrace.gateway.settings import GatewaySettings
from headrace.schemas.definition import SchemaType

Names = Annotated[Sequence[str], Query()]


def create_router(
    registry: Registry, *, settings: GatewaySettings | None = None, bodies: Bodies | None = None
) -> APIRouter:
    """All routes of the registry. It is opened and closed by the caller. The limits on bodies are in `settings`; those
    in `bodies` are counted together."""
    router = APIRouter(route_class=RegistryRoute, tags=["schema registry"])
    settings = settings or GatewaySettings()
    exchange = Exchange(
        schema_bytes_max=registry.limits.schema_bytes_max,
        settings=settings,
        bodies=bodies or Bodies(settings),
    )
    Routes(registry, exchange).add_to(router)
    return router


class Routes:
    def __init__(self, registry: Registry, exchange: Exchange) -> None:
        self._registry = registry
        self._exchange = exchange
        self._settings = SettingsRoutes(registry, exchange)

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
            ("GET", "/subjects/{subject}/metadata", self.get_latest_with_metadata),
            ("GET", "/subjects/{subject}/versions/{version}", self.get_version),
            ("DELETE", "/subjects/{subject}/versions/{version}", self.delete_version),
            ("GET", "/subjects/{subject}/versions/{version}/schema", self.get_version_text),
            ("GET", "/subjects/{subject}/versions/{version}/referencedby", self.list_referrers),
            ("POST", "/compatibility/subjects/{subject}/versions", self.check_all),
            ("POST", "/compatibility/subjects/{subject}/versions/{version}", self.check_one),
            ("GET", "/contexts", self.list_contexts),
            ("GET", "/", self.show_root),
            ("GET", "/master_available", self.show_availability),
        ]
        for method, path, endpoint in (*table, *self._settings.table):
            router.add_api_route(
                path,
                endpoint,
                methods=[method],
                summary=endpoint.__doc__,
                response_model=None,
                responses=RESPONSES,
                openapi_extra=body_of(method, path),
            )
            if method == "GET":
                router.add_api_route(
                    path, endpoint, methods=["HEAD"], include_in_schema=False, response_model=None
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
        found = await self._exchange.in_thread(lambda: self._registry.all_versions(deleted=is_set(deleted)))
        prefix = prefix_of(subjectPrefix)
        wanted = [each for each in found if each.subject.startswith(prefix)]
        if is_set(latestOnly):
            wanted = list({each.subject: each for each in wanted}.values())
        return json_response([version_fields(each) for each in page(wanted, offset, limit)])

    async def list_types(self) -> Response:
        """Types of schemas"""
        return json_response(["JSON", "PROTOBUF", "AVRO"])

    async def get_schema(
        self,
        schema_id: str,
        format: str = "",
        fetchMaxId: str = "false",
        includeSubjects: str = "false",
    ) -> Response:
        """The schema with this id"""
        number = schema_id_of(schema_id)
        versions = await self._exchange.in_thread(lambda: self._registry.of_id(number))
        definition, extra = versions[0].definition, versions[0].extra
        found: dict[str, Any] = definition_fields(definition, extra)
        found["schema"] = await self._text(versions[0], format)
        if is_set(fetchMaxId):
            found["maxId"] = self._registry.greatest_id()
        if is_set(includeSubjects):
            found["subjects"] = sorted({each.subject for each in versions if not each.is_deleted})
        return json_response(found)

    async def get_schema_text(self, schema_id: str, format: str = "") -> Response:
        """The text of the schema with this id"""
        number = schema_id_of(schema_id)
        versions = await self._exchange.in_thread(lambda: self._registry.of_id(number))
        return text_response(await self._text(versions[0], format))

    async def get_subjects_of_schema(
        self, schema_id: str, deleted: str = "false", subject: str = "", offset: str = "0", limit: str = "-1"
    ) -> Response:
        """Subjects that have the schema with this id"""
        versions = await self._versions_of_id(schema_id, deleted, subject)
        return json_response(page(sorted({each.subject for each in versions}), offset, limit))

    async def get_versions_of_schema(
        self, schema_id: str, deleted: str = "false", subject: str = "", offset: str = "0", limit: str = "-1"
    ) -> Response:
        """Subjects and versions that have the schema with this id"""
        versions = await self._versions_of_id(schema_id, deleted, subject)
        found = [{"subject": each.subject, "version": each.version} for each in versions]
        return json_response(page(found, offset, limit))

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
            if not is_set(deleted) and not is_set(deletedOnly):
                return live
            known = self._registry.subjects(deleted=True)
            return sorted(set(known) - set(live)) if is_set(deletedOnly) else known

        found = await self._exchange.in_thread(listed)
        prefix = prefix_of(subjectPrefix)
        return json_response(page([each for each in found if each.startswith(prefix)], offset, limit))

    async def list_versions(
        self,
        subject: str,
        deleted: str = "false",
        deletedOnly: str = "false",
        offset: str = "0",
        limit: str = "-1",
    ) -> Response:
        """The versions of a subject"""
        only = is_set(deletedOnly)
        found = await self._exchange.in_thread(
            lambda: self._registry.versions(subject, deleted=only or is_set(deleted))
        )
        return json_response(
            page([each.version for each in found if each.is_deleted or not only], offset, limit)
        )

    async def get_version(
        self, subject: str, version: str, deleted: str = "false", format: str = ""
    ) -> Response:
        """A version of a subject"""
        found = await self._exchange.in_thread(
            lambda: self._registry.version(subject, version, deleted=is_set(deleted))
        )
        return json_response(version_fields(found) | {"schema": await self._text(found, format)})

    async def get_latest_with_metadata(
        self,
        subject: str,
        key: Names = (),
        value: Names = (),
        deleted: str = "false",
        format: str = "",
    ) -> Response:
        """The latest version of a subject that has these properties in its metadata: each key with the value at its
        place"""
        if len(key) != len(value):
            raise RegistryError(422, 422, "each key has a value")
        found = await self._exchange.in_thread(
            lambda: self._registry.latest_with(
                subject, dict(zip(key, value, strict=True)), deleted=is_set(deleted)
            )
        )
        return json_response(version_fields(found) | {"schema": await self._text(found, format)})

    async def get_version_text(
        self, subject: str, version: str, deleted: str = "false", format: str = ""
    ) -> Response:
        """The text of a version of a subject"""
        found = await self._exchange.in_thread(
            lambda: self._registry.version(subject, version, deleted=is_set(deleted))
        )
        return text_response(await self._text(found, format))

    async def list_referrers(
        self, subject: str, version: str, deleted: str = "false", offset: str = "0", limit: str = "-1"
    ) -> Response:
        """Ids of the schemas that refer to a version"""
        found = await self._exchange.in_thread(
            lambda: self._registry.referrers(subject, version, deleted=is_set(deleted))
        )
        return json_response(page(sorted({each.id for each in found}), offset, limit))

    async def look_up(
        self,
        subject: str,
        request: Request,
        deleted: str = "false",
        format: str = "",
    ) -> Response:
        """The version of a subject that has this schema"""
        async with self._exchange.body(request, SchemaBody) as body:
            found = await self._exchange.in_thread(
                lambda: self._registry.look_up(subject, body.wanted(), deleted=is_set(deleted))
            )
        return json_response(version_fields(found) | {"schema": await self._text(found, format)})

    async def register(self, subject: str, request: Request, normalize: str = "false") -> Response:
        """Register a schema: a new version of the subject, unless it has the schema"""
        async with self._exchange.body(request, SchemaBody) as body:
            found = await self._exchange.in_thread(
                lambda: self._registry.register(subject, body.wanted(), normalize=is_set(normalize))
            )
        return json_response({"id": found.id})

    async def delete_subject(self, subject: str, permanent: str = "false") -> Response:
        """Delete all versions of a subject; for good with `permanent`"""
        found = await self._exchange.in_thread(
            lambda: self._registry.delete_subject(subject, permanent=is_set(permanent))
        )
        return json_response(found)

    async def delete_version(self, subject: str, version: str, permanent: str = "false") -> Response:
        """Delete a version of a subject; for good with `permanent`"""
        found = await self._exchange.in_thread(
            lambda: self._registry.delete_version(subject, version, permanent=is_set(permanent))
        )
        return json_response(found)

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
        try:
            async with self._exchange.body(request, SchemaBody) as body:
                conflict = await self._exchange.in_thread(
                    lambda: self._registry.conflict(subject, body.wanted(), version)
                )
            messages = [] if conflict is None else conflict.messages()
        except RegistryError as error:
            if not is_set(verbose) or error.code != errors.INVALID_SCHEMA:
                raise
            messages = [str(error)]
        found: dict[str, Any] = {"is_compatible": not messages}
        if is_set(verbose):
            found["messages"] = messages
        return json_response(found)

    async def list_contexts(self) -> Response:
        """The contexts of subjects: only the default one"""
        return json_response(["."])

    # Probes

    async def show_root(self) -> Response:
        """Nothing: probes request it"""
        return json_response({})

    async def show_availability(self) -> Response:
        """Whether a process serves the registry that can write, as Karapace reports it: each can"""
        return json_response({"master_available": True})

    async def _versions_of_id(self, schema_id: str, deleted: str, subject: str) -> list[Version]:
        number = schema_id_of(schema_id)
        versions = await self._exchange.in_thread(
            lambda: self._registry.of_id(number, deleted=is_set(deleted))
        )
        return [each for each in versions if subject in ("", each.subject)]

    async def _text(self, version: Version, format: str) -> str:
        if format == "serialized" and version.definition.type is SchemaType.PROTOBUF:
            return await self._exchange.in_thread(lambda: self._registry.descriptor(version))
        return version.definition.text
