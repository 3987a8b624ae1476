"""What only `OpenSearch` does; `tests/contract/test_sinks.py` checks the rest."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import OpenSearch
from headrace.pipeline.sinks.opensearch_client import OpenSearchClient
from headrace.pipeline.sinks.sink import RejectedRow
from headrace.testing import OpenSearchServer, free_port

SCHEMA = StructType().add("id", "string").add("at", "timestamp")


def sink(server: OpenSearchServer, name: str | None = None) -> OpenSearch:
    return OpenSearch(name or f"users-{uuid.uuid4().hex[:12]}", key="id", at=server.address)


def batch(*ids: str) -> list[pa.RecordBatch]:
    columns = {"id": pa.array(ids), "at": pa.nulls(len(ids), pa.timestamp("us", "UTC"))}
    found: list[pa.RecordBatch] = pa.table(columns).to_batches()
    return found


def fence(batch_id: int) -> Fence:
    return Fence(job="job", checkpoint="first", batch_id=batch_id)


@pytest.mark.parametrize("name", ["", "Users", "_users", "a b", "a/b", "a*"])
def test_name_that_no_index_can_have_is_rejected(name: str) -> None:
    with pytest.raises(BadSink, match="can't be called"):
        OpenSearch(name, key="id")


def test_sink_without_a_key_is_rejected() -> None:
    with pytest.raises(BadSink, match="has no key"):
        OpenSearch("users")


def test_server_that_is_away_is_unavailable() -> None:
    away = OpenSearch("users", key="id", at=f"http://127.0.0.1:{free_port()}", timeout_s=0)
    with pytest.raises(SinkUnavailable, match="no response"):
        away.open("job", SCHEMA)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_older_process_is_fenced_and_overwrites_nothing(opensearch_server: OpenSearchServer) -> None:
    users = sink(opensearch_server)
    older = users.open("job", SCHEMA)
    rejected: list[RejectedRow] = []
    older.apply(batch("a"), fence(0), rejected.extend)
    newer = users.open("job", SCHEMA)
    with pytest.raises(SinkUnavailable, match="another process writes"):
        older.apply(batch("a"), fence(1), rejected.extend)
    assert newer.apply(batch("a", "b"), fence(1), rejected.extend) == 2
    older.close()
    newer.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_document_of_an_older_batch_does_not_replace_a_newer_one(opensearch_server: OpenSearchServer) -> None:
    users = sink(opensearch_server)
    writer = users.open("job", SCHEMA)
    for number in range(3):
        writer.apply(batch("a"), fence(number), lambda rows: None)
    client = OpenSearchClient(opensearch_server.address)
    late = {"index": {"_id": "a", "version": 2, "version_type": "external_gte"}}
    (result,) = client.bulk(users.name, [late, {"id": "older"}])
    assert result["status"] == 409
    client.close()
    writer.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_index_of_others_and_of_other_columns_is_not_written(opensearch_server: OpenSearchServer) -> None:
    users = sink(opensearch_server)
    users.open("job", SCHEMA).close()
    with pytest.raises(BadSink, match="at is missing in the rows"):
        users.open("job", StructType(SCHEMA.fields[:1]))
    foreign = sink(opensearch_server)
    client = OpenSearchClient(opensearch_server.address)
    client.request("PUT", f"/{foreign.name}")
    client.close()
    with pytest.raises(BadSink, match="was not created by Headrace"):
        foreign.open("job", SCHEMA)
