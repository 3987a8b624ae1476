"""Reading one version of a view in OpenSearch."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from headrace.kafka.position import Position
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.opensearch_client import (
    OpenSearchClient,
    OpenSearchRejected,
    OpenSearchUnavailable,
)
from headrace.pipeline.sinks.opensearch_layout import (
    EXACT_CHARS_MAX,
    FENCES,
    columns_of,
    exact_field,
    identity,
    row_of,
)
from headrace.views.definition import Definition, Row
from headrace.views.errors import BadView, ViewUnavailable
from headrace.views.query.rows import selected
from headrace.views.reader import Found, Reader, SearchResult
from headrace.views.selection import Selection
from headrace.views.stores.row_selection import SCAN_ROWS_MAX, equalities, too_many_rows

HITS_MAX = 10_000
"""OpenSearch's own bound of a result."""

FACET_VALUES_MAX = 100
"""Values of a column that are counted; a person chooses among fewer."""

ROWS_PER_REQUEST = 5_000
SCROLL = "1m"
"""How long OpenSearch keeps a scan between two requests."""


class OpenSearchReader(Reader):
    def __init__(self, definition: Definition, version: int, client: OpenSearchClient) -> None:
        self._definition = definition
        self._version = version
        self._index = definition.physical(version)
        self._client = client
        mapping = self._request("GET", f"/{self._index}/_mapping")
        self._schema: pa.Schema = columns_of(mapping[self._index]["mappings"])[0]

    def columns(self) -> Sequence[str]:
        return list(self._schema.names)

    def types(self) -> Mapping[str, str]:
        return {field.name: str(field.type) for field in self._schema}

    def position(self) -> Position | None:
        found = self._request("GET", f"/{FENCES}/_doc/{quote(self._index, safe='')}")
        fences = json.loads(found["_source"]["state"])["fences"].values()
        positions = [Position.from_fence(Fence.from_json(each).ends).offsets for each in fences]
        return Position.merged(positions) if positions else None

    # Rows

    def get(self, key: Row) -> dict[str, Any] | None:
        names = self._definition.key
        if sorted(key) != sorted(names):
            raise BadView(
                f"{', '.join(key) or 'nothing'} is not the key of view {self._definition.name}",
                hint=f"its key is {', '.join(names)}",
            )
        # Several documents in one request: OpenSearch reports a missing index, and a missing document, each in its way.
        wanted = {"ids": [identity(self._typed(key), names)]}
        (found,) = self._request("POST", f"/{self._index}/_mget", wanted)["docs"]
        if "error" in found:
            raise gone(self._definition, self._version)
        return row_of(found["_source"], self._schema) if found["found"] else None

    def select(self, selection: Selection) -> list[dict[str, Any]]:
        query = self._equal(equalities(selection))
        rows = self.count(query)
        if rows > SCAN_ROWS_MAX:
            raise too_many_rows(
                self._definition.name,
                rows,
                "add a condition COLUMN = VALUE, search with words, or create the view in a database: --to sqlite or "
                "--to postgresql",
            )
        return selected(self._scan(query), selection)

    def search(
        self, query: str, *, limit: int = 10, offset: int = 0, facets: Sequence[str] = ()
    ) -> SearchResult:
        if not 0 < limit <= HITS_MAX or offset < 0 or offset + limit > HITS_MAX:
            raise BadView(
                f"hits from {offset} to {offset + limit} cannot be read",
                hint=f"the first {HITS_MAX} can; make the query narrower",
            )
        texts = [field.name for field in self._schema if exact_field(field.name, field.type) != field.name]
        body = {
            "query": {"query_string": {"query": query, "fields": texts or ["*"], "lenient": True}},
            "from": offset,
            "size": limit,
            "track_total_hits": True,
            "highlight": {
                "pre_tags": ["<b>"],
                "post_tags": ["</b>"],
                "encoder": "html",
                "number_of_fragments": 1,
                "fields": {name: {} for name in texts},
            },
            "aggs": {
                name: {"terms": {"field": self._facet(name), "size": FACET_VALUES_MAX}} for name in facets
            },
        }
        found = self._request("POST", f"/{self._index}/_search", body)
        return SearchResult(
            total=found["hits"]["total"]["value"],
            hits=[self._found(hit) for hit in found["hits"]["hits"]],
            facets={name: _counts(found["aggregations"][name]) for name in facets},
        )

    def count(self, query: Mapping[str, Any] | None = None) -> int:
        found = self._request("POST", f"/{self._index}/_count", {"query": query or {"match_all": {}}})
        return int(found["count"])

    def sample(self, limit: int) -> list[dict[str, Any]]:
        query: dict[str, Any] = {"function_score": {"query": {"match_all": {}}, "random_score": {}}}
        found = self._request(
            "POST", f"/{self._index}/_search", {"query": query, "size": min(limit, HITS_MAX)}
        )
        return [row_of(hit["_source"], self._schema) for hit in found["hits"]["hits"]]

    def close(self) -> None:
        pass

    # Queries

    def _equal(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """A superset of the rows with these values: a filter for each column that finds values as a whole."""
        filters = []
        for name, value in values.items():
            kind = self._schema.field(name).type
            is_text = pa.types.is_string(kind) and isinstance(value, str) and len(value) <= EXACT_CHARS_MAX
            is_number = pa.types.is_integer(kind) and type(value) is int
            if is_text or is_number:
                filters.append({"term": {exact_field(name, kind): value}})
        return {"bool": {"filter": filters}} if filters else {"match_all": {}}

    def _scan(self, query: Mapping[str, Any]) -> list[dict[str, Any]]:
        body = {"query": query, "size": ROWS_PER_REQUEST, "sort": ["_doc"]}
        found = self._request("POST", f"/{self._index}/_search?scroll={SCROLL}", body)
        rows: list[dict[str, Any]] = []
        while hits := found["hits"]["hits"]:
            rows += [row_of(hit["_source"], self._schema) for hit in hits]
            if len(hits) < ROWS_PER_REQUEST:
                break
            found = self._request(
                "POST", "/_search/scroll", {"scroll": SCROLL, "scroll_id": found["_scroll_id"]}
            )
        self._request("DELETE", "/_search/scroll", {"scroll_id": found["_scroll_id"]})
        return rows

    def _typed(self, key: Row) -> dict[str, Any]:
        try:
            return {name: pa.scalar(key[name], self._schema.field(name).type).as_py() for name in key}
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise BadView(
                f"view {self._definition.name}: {dict(key)} is not a key", hint="give values of its types"
            ) from error

    def _facet(self, name: str) -> str:
        field = exact_field(name, self._schema.field(name).type) if name in self._schema.names else None
        if field is None:
            raise BadView(
                f"the values of {name} can't be counted",
                hint="texts, integers, floating-point numbers and booleans can",
            )
        return field

    def _found(self, hit: Mapping[str, Any]) -> Found:
        fragments = {name: found[0] for name, found in hit.get("highlight", {}).items()}
        return Found(
            row=row_of(hit["_source"], self._schema), score=float(hit["_score"]), highlights=fragments
        )

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        with reached():
            found = self._client.request(method, path, body, missing_ok=True)
        if found is None:
            raise gone(self._definition, self._version)
        return found


def _counts(aggregation: Mapping[str, Any]) -> dict[str, int]:
    return {
        str(each.get("key_as_string", each["key"])): int(each["doc_count"]) for each in aggregation["buckets"]
    }


def connected(at: str) -> OpenSearchClient:
    """Connects with the first request."""
    with reached():
        return OpenSearchClient(at)


@contextlib.contextmanager
def reached() -> Iterator[None]:
    try:
        yield
    except OpenSearchUnavailable as error:
        raise ViewUnavailable(error.message, hint=error.hint) from error
    except OpenSearchRejected as error:
        raise BadView(error.message, hint=error.hint) from error


def gone(definition: Definition, version: int) -> ViewUnavailable:
    return ViewUnavailable(
        f"OpenSearch has no version {version} of view {definition.name}",
        hint="read the view again if another version is served by now; else start its job",
    )
