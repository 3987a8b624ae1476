"""An index of OpenSearch: documents are gone, and their bytes from the files of the server; other rows stay."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from headrace.erasure.errors import BadErasure, ErasureInterrupted
from headrace.erasure.places import opensearch_index
from headrace.erasure.places.opensearch_index import OpenSearchIndex
from headrace.erasure.subject import Subject
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import OpenSearch
from headrace.pipeline.sinks.opensearch_client import OpenSearchClient
from headrace.pipeline.sinks.sink import SinkWriter
from headrace.testing import OpenSearchServer, free_port

SCHEMA = (
    StructType()
    .add("id", "long")
    .add("name", "string")
    .add("is_open", "boolean")
    .add("rate", "double")
    .add("seen", "timestamp")
)


@pytest.fixture
def sink(opensearch_server: OpenSearchServer) -> OpenSearch:
    return OpenSearch(f"users-{uuid.uuid4().hex[:12]}", key="id", at=opensearch_server.address)


def apply(writer: SinkWriter, number: int, *rows: tuple[int, str]) -> None:
    columns = {
        "id": [id for id, _ in rows],
        "name": [name for _, name in rows],
        "is_open": [True] * len(rows),
        "rate": [0.5] * len(rows),
        "seen": pa.nulls(len(rows), pa.timestamp("us", "UTC")),
    }
    fence = Fence(job="job", checkpoint="c", batch_id=number, ends=("{}",))
    writer.apply(pa.table(columns).to_batches(), fence, lambda rejected: pytest.fail(str(rejected)))


def files_with(server: OpenSearchServer, secret: str) -> list[str]:
    files = (each for each in Path(server.folder).rglob("*") if each.is_file())
    return [str(each) for each in files if secret.encode() in each.read_bytes()]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_document_and_its_bytes_are_gone_and_the_job_continues(
    opensearch_server: OpenSearchServer, sink: OpenSearch
) -> None:
    secret = f"Ada Lovelace {uuid.uuid4().hex}"
    writer = sink.open("job", SCHEMA)
    # Of a segment with this many documents, OpenSearch by default does not expunge a single one.
    apply(writer, 0, *((id, secret if id == 7 else f"person {id}") for id in range(100)))
    place, subject = OpenSearchIndex(sink.at, sink.name, "id"), Subject(key='{"id": 7}')
    assert place.remaining(subject) == 1
    assert files_with(opensearch_server, secret), "the test shows nothing"
    place.erase(subject)
    assert place.remaining(subject) == 0
    assert files_with(opensearch_server, secret) == []
    assert place.remaining(Subject(key="8")) == 1
    client = OpenSearchClient(sink.at)
    (settings,) = client.request("GET", f"/{sink.name}/_settings?flat_settings=true").values()
    assert "index.merge.policy.expunge_deletes_allowed" not in settings["settings"]
    apply(writer, 1, (7, "somebody else"), (8, "grace"))
    found = client.request("GET", f"/{sink.name}/_search?q=name:grace+name:else")["hits"]["hits"]
    assert sorted(each["_source"]["id"] for each in found) == [7, 8]
    client.close()
    writer.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_document_that_was_deleted_before_counts_until_it_is_merged(
    sink: OpenSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = sink.open("job", SCHEMA)
    apply(writer, 0, (7, "ada"), (8, "grace"))
    apply(writer, 1, (7, "ada king"))
    writer.close()
    place, subject = OpenSearchIndex(sink.at, sink.name, "name"), Subject(key="ada")
    assert place.remaining(subject) == 1
    with monkeypatch.context() as patch:
        patch.setattr(opensearch_index, "EXPUNGE_S_MAX", 0.0)
        with pytest.raises(ErasureInterrupted, match="keeps 1 deleted documents"):
            place.erase(subject)
    place.erase(subject)
    assert place.remaining(subject) == 0
    assert place.remaining(Subject(key="ada king")) == 1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_values_are_found_by_their_type_and_wrong_names_are_errors(sink: OpenSearch) -> None:
    writer = sink.open("job", SCHEMA)
    apply(writer, 0, (7, "ada"), (8, "Grace Hopper"))
    writer.close()

    def found(column: str, key: str) -> int:
        return OpenSearchIndex(sink.at, sink.name, column).remaining(Subject(key=key))

    assert [found("id", each) for each in ("7", "ada", str(2**70))] == [1, 0, 0]
    assert [found("name", each) for each in ("Grace Hopper", "Grace")] == [1, 0]
    assert [found("is_open", each) for each in ("true", "false", "7")] == [2, 0, 0]
    assert [found("rate", each) for each in ("0.5", "nan", "half")] == [2, 0, 0]
    for column, problem in (("user", "no such column"), ("seen", "can't find this value")):
        with pytest.raises(BadErasure, match=problem):
            found(column, "7")
    with pytest.raises(BadErasure, match="can't find this value"):
        found("name", "x" * 10_000)
    with pytest.raises(BadErasure, match="no such index"):
        OpenSearchIndex(sink.at, "nobody", "id").remaining(Subject(key="7"))


def test_server_that_is_away_can_be_continued_and_the_password_is_not_shown() -> None:
    place = OpenSearchIndex(f"http://ada:secret@127.0.0.1:{free_port()}", "users", "id")
    with pytest.raises(ErasureInterrupted, match="no response") as raised:
        place.remaining(Subject(key="7"))
    assert "secret" not in f"{raised.value} {place.name}"
