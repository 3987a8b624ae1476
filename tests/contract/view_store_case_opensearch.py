"""Views in OpenSearch, one server for all tests, which is emptied for each: all of them have the same names."""

from __future__ import annotations

from typing import Any

from headrace.pipeline.sinks.opensearch_client import OpenSearchClient
from headrace.testing.opensearch import OpenSearchServer
from tests.contract.view_store_contract import Lab, ViewStoreCase, view_store_case


@view_store_case("opensearch")
def opensearch(lab: Lab) -> ViewStoreCase:
    server: OpenSearchServer = lab.fixture("opensearch_server")
    client = OpenSearchClient(server.address)
    lab.stack.callback(client.close)
    client.request("DELETE", "/users*,orders*,headrace-fences*")

    def rows_by_name(name: str) -> list[dict[str, Any]]:
        hits = client.request("GET", f"/{name}/_search?size=100")["hits"]["hits"]
        return [hit["_source"] for hit in hits]

    return ViewStoreCase(kind="opensearch", at=server.address, rows_by_name=rows_by_name)
