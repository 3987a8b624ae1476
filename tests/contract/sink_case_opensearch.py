"""The `OpenSearch` sink against the contract: documents in a real OpenSearch."""

from __future__ import annotations

from pyspark.sql.types import StructType

from headrace.pipeline.sinks.opensearch import OpenSearch
from headrace.pipeline.sinks.opensearch_client import OpenSearchClient
from headrace.pipeline.sinks.opensearch_layout import columns_of, row_of
from headrace.testing.opensearch import OpenSearchServer
from tests.contract.sink_contract import Lab, Row, SinkCase, row, sink_case

PAGE = 10_000


@sink_case("opensearch")
def opensearch(lab: Lab) -> SinkCase:
    server: OpenSearchServer = lab.fixture("opensearch_server")
    return SinkCase(
        sink=lambda: OpenSearch(lab.name, key="id", at=server.address),
        read=lambda schema: rows_in_opensearch(server.address, lab.name, schema),
        rejected=row(None),  # type: ignore[arg-type]
        is_atomic=False,
    )


def rows_in_opensearch(address: str, index: str, schema: StructType) -> list[Row]:
    client = OpenSearchClient(address)
    try:
        mapping = client.request("GET", f"/{index}/_mapping", missing_ok=True)
        if mapping is None:
            return []
        columns, _ = columns_of(mapping[index]["mappings"])
        client.request("POST", f"/{index}/_refresh")
        found = client.request("POST", f"/{index}/_search?scroll=1m", {"size": PAGE, "sort": ["_doc"]})
        rows: list[Row] = []
        while found["hits"]["hits"]:
            rows += [row_of(hit["_source"], columns) for hit in found["hits"]["hits"]]
            found = client.request(
                "POST", "/_search/scroll", {"scroll": "1m", "scroll_id": found["_scroll_id"]}
            )
        return rows
    finally:
        client.close()
