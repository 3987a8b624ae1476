"""A real OpenSearch: what it has acknowledged survives a kill."""

from __future__ import annotations

import pytest

from headrace.pipeline.sinks.opensearch_client import OpenSearchClient
from headrace.testing import OpenSearchServer
from headrace.testing.requirements import require_java


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_acknowledged_document_survives_a_kill() -> None:
    require_java()
    with OpenSearchServer() as server:
        client = OpenSearchClient(server.address)
        client.request("PUT", "/users/_doc/1", {"city": "Oslo"})
        client.close()
        server.kill()
        server.start()
        client = OpenSearchClient(server.address, retry_s=60)
        assert client.request("GET", "/users/_doc/1")["_source"] == {"city": "Oslo"}
        client.close()
