"""Views in OpenSearch: an index for each version, and an alias with the view's name. A switch is one request that moves
the alias. `opensearch_reader.py` reads them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from headrace.pipeline.sinks.opensearch_client import OpenSearchClient
from headrace.pipeline.sinks.opensearch_layout import FENCES
from headrace.views.definition import Definition
from headrace.views.errors import BadView
from headrace.views.store import Store
from headrace.views.stores.opensearch_reader import OpenSearchReader, connected, gone, reached
from headrace.views.stores.options import check_options

if TYPE_CHECKING:
    from headrace.pipeline.sinks.sink import Sink

ADDRESS = "http://127.0.0.1:9200"


class OpenSearchViews(Store):
    def __init__(self, definition: Definition, data_dir: Path) -> None:
        super().__init__(definition, data_dir)
        self._at = definition.at or ADDRESS
        self._opened: OpenSearchClient | None = None

    @property
    def _client(self) -> OpenSearchClient:
        if self._opened is None:
            self._opened = connected(self._at)
        return self._opened

    def check(self) -> None:
        check_options(self.definition)
        with reached():
            self._client.request("GET", "/")
        self.served()

    def sink(self, version: int) -> Sink:
        from headrace.pipeline.sinks.opensearch import OpenSearch

        return OpenSearch(self.definition.physical(version), key=self.definition.key, at=self._at)

    def versions(self) -> list[int]:
        with reached():
            found = self._client.request("GET", f"/{self.definition.name}__*/_alias", missing_ok=True) or {}
        return sorted(
            version for index in found if (version := self.definition.version_of(index)) is not None
        )

    def served(self) -> int | None:
        name = self.definition.name
        with reached():
            found = self._client.request("GET", f"/_alias/{name}", missing_ok=True)
            is_index = found is None and self._client.request("GET", f"/{name}", missing_ok=True) is not None
        if found is None and not is_index:
            return None
        versions = [self.definition.version_of(index) for index in found or ()]
        if len(versions) != 1 or versions[0] is None:
            raise BadView(
                f"view {name}: OpenSearch has another {'index' if is_index else 'alias'} of this name",
                hint="give the view another name",
            )
        return versions[0]

    def switch(self, version: int) -> None:
        served = self.served()
        if version not in self.versions():
            raise gone(self.definition, version)
        actions = [{"add": {"index": self.definition.physical(version), "alias": self.definition.name}}]
        if served is not None and served != version:
            old = {"index": self.definition.physical(served), "alias": self.definition.name}
            actions.insert(0, {"remove": old})
        with reached():
            self._client.request("POST", "/_aliases", {"actions": actions})

    def drop(self, version: int) -> None:
        if self.served() == version:
            raise BadView(
                f"version {version} of view {self.definition.name} is served",
                hint="switch to another one first",
            )
        self._delete(version)

    def drop_view(self) -> None:
        """An alias is deleted with its index, the served version last: until then, reads of the name succeed."""
        served = self.served()
        versions = self.versions()
        for version in sorted(versions, key=lambda each: each == served):
            self._delete(version)

    def count(self, version: int) -> int:
        return self.reader(version).count()

    def sample(self, version: int, limit: int) -> list[dict[str, Any]]:
        return self.reader(version).sample(limit)

    def reader(self, version: int) -> OpenSearchReader:
        return OpenSearchReader(self.definition, version, self._client)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _delete(self, version: int) -> None:
        """The fence first: without it a writer fails, and an index that is built again is built from the start."""
        name = self.definition.physical(version)
        with reached():
            self._client.request("DELETE", f"/{FENCES}/_doc/{quote(name, safe='')}", missing_ok=True)
            self._client.request("DELETE", f"/{name}", missing_ok=True)
