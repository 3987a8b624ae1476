"""Another registry, over its HTTP API, with what the gateway needs of one: it registers and reads schemas, and says
which there are. Its errors are those of the embedded registry.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from headrace.errors import HeadraceError
from headrace.gateway.registry import errors
from headrace.gateway.registry.changes import Wanted
from headrace.gateway.registry.errors import RegistryError
from headrace.gateway.registry.records import UnreadableRecord, Version, version_of
from headrace.registered.client import RegistryClient
from headrace.registered.errors import RegistryUnavailable, RequestRejected
from headrace.registered.schema import SchemaText
from headrace.schemas.definition import Definition
from headrace.schemas.errors import InvalidSchema
from headrace.schemas.levels import Compatibility
from headrace.schemas.parsing import Parsed, Referenced, parse


class OtherRegistry:
    """Threads may share it. Each method is one request or a few."""

    def __init__(self, url: str) -> None:
        self._client = RegistryClient(url)

    def of_id(self, schema_id: int, *, deleted: bool = True) -> list[Version]:
        """One, whose subject is unknown."""
        with _translated():
            found = self._client.by_id(schema_id).schema
        definition = Definition(text=found.text, type=found.type)
        return [Version(subject="", version=0, id=schema_id, definition=definition)]

    def has(self, subject: str, schema_id: int) -> bool:
        """What was registered is not looked up again, as in the clients of registries."""
        return True

    def register(self, subject: str, wanted: Wanted, *, normalize: bool) -> Version:
        with _translated():
            schema_id = self._client.register(subject, wanted.definition)
        return Version(subject=subject, version=0, id=schema_id, definition=wanted.definition)

    def all_versions(self, *, deleted: bool) -> list[Version]:
        with _translated():
            found = self._client.get("/schemas", list[dict[str, Any]])
        try:
            return [version_of(each) for each in found]
        except UnreadableRecord as error:
            raise RegistryError(500, 50001, f"the list of schemas at {self._client.shown}: {error}") from None

    def version(self, subject: str, text: str, *, deleted: bool = False) -> Version:
        with _translated():
            found = self._client.version(subject, int(text))
        definition = Definition(text=found.schema.text, type=found.schema.type)
        return Version(subject=subject, version=int(text), id=found.id, definition=definition)

    def compatibility(self, subject: str, *, default_to_global: bool) -> Compatibility:
        path = f"/config/{quote(subject, safe='')}?defaultToGlobal={str(default_to_global).lower()}"
        with _translated():
            return Compatibility(self._client.get(path, dict[str, Any])["compatibilityLevel"])

    def parsed(self, version: Version) -> Parsed:
        """With the schemas that it refers to."""
        with _translated():
            return _parsed(self._client.by_id(version.id).schema)


def _parsed(schema: SchemaText) -> Parsed:
    referenced = [Referenced(each.name, _parsed(each.schema)) for each in schema.referenced]
    return parse(Definition(text=schema.text, type=schema.type), referenced, strict=False)


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except RequestRejected as error:
        status = error.code if error.code < 1_000 else error.code // 100
        raise RegistryError(status, error.code, error.message, hint=error.hint) from error
    except RegistryUnavailable as error:
        raise RegistryError(503, 50301, error.message, hint=error.hint) from error
    except InvalidSchema:
        raise
    except HeadraceError as error:
        raise errors.store_failed(error) from error
