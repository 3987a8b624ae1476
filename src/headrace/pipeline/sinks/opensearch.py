"""`OpenSearch`: rows as documents of an index of OpenSearch.

Documents are written first and the fence last, so a batch may be seen in parts. Its number, which grows with every
batch of the index, is the external version of its documents: a repeated batch changes nothing, and an older process
cannot overwrite a newer row.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import changes
from headrace.pipeline.sinks.opensearch_client import (
    OpenSearchClient,
    OpenSearchRejected,
    OpenSearchUnavailable,
)
from headrace.pipeline.sinks.opensearch_layout import FENCES, columns_of, document, identity, index_body
from headrace.pipeline.sinks.sink import Reject, RejectedRow, Sink, SinkWriter

ROWS_PER_REQUEST = 5_000
"""Some megabytes; OpenSearch accepts 100."""

TIMEOUT_S = 60.0
"""How long OpenSearch may be unavailable, such as during a restart, before a batch fails."""

COMMIT_TRIES_MAX = 10

CONFLICT = 409


@dataclass(frozen=True, slots=True)
class OpenSearch(Sink):
    """Documents by key.

    OpenSearch("users", key="id", at="http://127.0.0.1:9200")
    """

    name: str
    """Of the index: small letters, digits, `-` and `_`."""
    _: KW_ONLY
    key: str | Sequence[str] = ()
    at: str = field(default="http://127.0.0.1:9200", repr=False)  # it may have a password in it
    """http:// or https://, with USER:PASSWORD@ if it needs them."""
    order_by: str | None = None
    """The column that orders the rows of a key within a batch: the row with the greatest value is written."""
    timeout_s: float = TIMEOUT_S
    """How long OpenSearch may be unavailable before a batch fails and the job restarts."""

    kind: ClassVar[str] = "opensearch"

    def __post_init__(self) -> None:
        self.set_names("key")
        if not self.key:
            raise BadSink(f"opensearch {self.name} has no key", hint="name its columns: OpenSearch(…, key=…)")
        is_good = self.name and self.name == self.name.lower() and self.name[0] not in "-_+"
        if not is_good or set(self.name) & set('\\/*?"<>| ,#:'):
            raise BadSink(f"an index can't be called {self.name!r}", hint="small letters, digits, - and _")

    def target(self) -> str:
        return f"opensearch {self.name}"

    def open(self, job: str, schema: StructType) -> SinkWriter:
        arrow = to_arrow_schema(schema, timezone="UTC").remove_metadata()
        stored = pa.schema([arrow.field(name) for name in changes.stored_columns(arrow, keep=self.key)])
        self.check_columns(self.key, stored.names)
        self.check_columns((self.order_by,), arrow.names)
        return _OpenSearchWriter(self, job, stored)


class _Commits:
    """The document with the fences of an index: replaced only if nobody else has replaced it."""

    def __init__(self, client: OpenSearchClient, index: str) -> None:
        self._client = client
        self._path = f"/{FENCES}/_doc/{quote(index, safe='')}"

    def read(self) -> tuple[dict[str, Any], str]:
        """The document, and the condition for replacing it."""
        found = self._client.request("GET", self._path, missing_ok=True)
        if found is None or not found.get("found"):
            return {"number": 0, "owners": {}, "fences": {}}, "op_type=create"
        state = json.loads(found["_source"]["state"])
        return state, f"if_seq_no={found['_seq_no']}&if_primary_term={found['_primary_term']}"

    def replace(self, state: Mapping[str, Any], condition: str) -> bool:
        """Whether it was replaced."""
        try:
            self._client.request("PUT", f"{self._path}?{condition}", {"state": json.dumps(state)})
        except OpenSearchRejected as error:
            if error.status == CONFLICT:
                return False
            raise
        return True


class _OpenSearchWriter(SinkWriter):
    def __init__(self, sink: OpenSearch, job: str, stored: pa.Schema) -> None:
        self._sink = sink
        self._job = job
        self._stored = stored
        self._owner = str(uuid.uuid4())
        self._client = OpenSearchClient(sink.at, retry_s=sink.timeout_s)
        self._commits = _Commits(self._client, sink.name)
        with _errors():
            self._create(
                FENCES, {"settings": {"auto_expand_replicas": "0-1"}, "mappings": {"dynamic": False}}
            )
            self._create(sink.name, index_body(stored, sink.key))
            mapping = self._client.request("GET", f"/{sink.name}/_mapping")
            there, key = columns_of(next(iter(mapping.values()))["mappings"])
            _check_columns(sink, there, key, stored)
            self._change(lambda state: state["owners"].update({job: self._owner}))

    def applied(self) -> Fence | None:
        with _errors():
            kept = self._commits.read()[0]["fences"].get(self._job)
        return None if kept is None else Fence.from_json(kept)

    def apply(self, rows: Iterable[pa.RecordBatch], fence: Fence, reject: Reject) -> int:
        table = changes.table_of(rows)
        rejected: list[RejectedRow] = []
        if table is not None:
            table, rejected = changes.without_null_keys(table, self._sink.key)
        actions = [] if table is None else list(self._actions(table))
        with _errors():
            for _ in range(COMMIT_TRIES_MAX):
                state, condition = self._commits.read()
                self._check_owner(state)
                kept = state["fences"].get(self._job)
                if kept is not None and Fence.from_json(kept).covers(fence):
                    return 0
                state["number"] += 1
                refused = self._write(actions, state["number"])
                if rejected or refused:
                    reject([*rejected, *refused])
                self._client.request("POST", f"/{self._sink.name}/_refresh")
                state["fences"][self._job] = fence.to_json()
                if self._commits.replace(state, condition):
                    return len(actions) - len(refused)
                rejected = []  # they are reported
        raise SinkUnavailable(
            f"{COMMIT_TRIES_MAX} batches of other jobs were written to {self._sink.name} during one",
            hint="several jobs of one index should write less often",
        )

    def clear(self) -> None:
        with _errors():
            self._client.request("DELETE", f"/{self._sink.name}", missing_ok=True)
            self._create(self._sink.name, index_body(self._stored, self._sink.key))
            self._change(lambda state: state["fences"].pop(self._job, None))

    def close(self) -> None:
        self._client.close()

    # Documents

    def _actions(self, table: pa.Table) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        """What is done with which document, and the row that it is for."""
        collapsed = changes.collapse(table, key=self._sink.key, order_by=self._sink.order_by)
        for row in collapsed.deletes.to_pylist():
            yield "delete", identity(row, self._sink.key), row
        for row in collapsed.upserts.to_pylist(maps_as_pydicts="strict"):
            yield "index", identity(row, self._sink.key), row

    def _write(self, actions: Sequence[tuple[str, str, Mapping[str, Any]]], number: int) -> list[RejectedRow]:
        """The rows whose documents OpenSearch rejects."""
        rejected = []
        for start in range(0, len(actions), ROWS_PER_REQUEST):
            some = actions[start : start + ROWS_PER_REQUEST]
            lines = []
            for action, id, row in some:
                lines.append({action: {"_id": id, "version": number, "version_type": "external_gte"}})
                if action == "index":
                    lines.append(document(row))
            for (_, _, row), result in zip(some, self._client.bulk(self._sink.name, lines), strict=True):
                error = result.get("error")
                if error is None or result["status"] == CONFLICT:
                    continue
                if result["status"] >= 429:
                    raise SinkUnavailable(
                        f"OpenSearch could not write a document: {error}", hint="it is written again later"
                    )
                rejected.append(RejectedRow(row=row, reason=_reason(error)))
        return rejected

    # Index and fences

    def _create(self, index: str, body: Mapping[str, Any]) -> None:
        try:
            self._client.request("PUT", f"/{index}", body)
        except OpenSearchRejected as error:
            if error.kind != "resource_already_exists_exception":
                raise

    def _change(self, change: Any) -> None:
        for _ in range(COMMIT_TRIES_MAX):
            state, condition = self._commits.read()
            change(state)
            if self._commits.replace(state, condition):
                return
        raise SinkUnavailable(f"{self._sink.name}: its fences change all the time", hint="start again")

    def _check_owner(self, state: Mapping[str, Any]) -> None:
        owner = state["owners"].get(self._job)
        if owner is None:
            raise BadSink(
                f"OpenSearch has lost the fence of job {self._job}",
                hint="build the index again with `headrace job run --rebuild`",
            )
        if owner != self._owner:
            raise SinkUnavailable(
                f"another process writes to opensearch {self._sink.name} as job {self._job}",
                hint="a job runs in one process at a time; stop the other one",
            )


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except OpenSearchUnavailable as error:
        raise SinkUnavailable(error.message, hint=error.hint) from error
    except OpenSearchRejected as error:
        raise BadSink(error.message, hint=error.hint) from error


def _check_columns(sink: OpenSearch, there: pa.Schema, key: tuple[str, ...], wanted: pa.Schema) -> None:
    differences = [f"{each.name}: {each.type}" for each in wanted if each not in list(there)]
    differences += [f"{name} is missing in the rows" for name in there.names if name not in wanted.names]
    if key != tuple(sink.key):
        differences.append(f"its key is {', '.join(key)}")
    if differences:
        raise BadSink(
            f"the index {sink.name} has other columns: {'; '.join(differences)}",
            hint="an index can't change its columns; build one of another name from the start of the topic",
        )


def _reason(error: Mapping[str, Any]) -> str:
    cause = error.get("caused_by", {}).get("reason")
    return f"{error.get('reason', error)}{f': {cause}' if cause else ''}"
