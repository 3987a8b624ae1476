"""An index of OpenSearch that the sink `OpenSearch` wrote. A deleted document stays in its segment until a merge.

Merges keep deleted documents as long as a copy of the shard may ask for its history. OpenSearch moves that bound every
30 seconds, so segments are merged until none has a deleted document. A flush empties the transaction log.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from headrace.erasure.errors import BadErasure, ErasureInterrupted
from headrace.erasure.subject import Subject
from headrace.pipeline.errors import BadSink
from headrace.pipeline.sinks.opensearch_client import (
    OpenSearchClient,
    OpenSearchRejected,
    OpenSearchUnavailable,
)
from headrace.pipeline.sinks.opensearch_layout import EXACT_CHARS_MAX, columns_of, exact_field
from headrace.redaction import redacted

RESPONSE_TIMEOUT_S = 600.0
"""A merge of a large index."""

EXPUNGE_S_MAX = 120.0
"""How long deleted documents may stay. The bound moves every 30 seconds; then the copies of the shard merge."""

EXPUNGE_PAUSE_S = 1.0

_ALLOWED = "index.merge.policy.expunge_deletes_allowed"


class OpenSearchIndex:
    def __init__(self, address: str, index: str, column: str) -> None:
        self.name = f"opensearch {redacted(address)} {index}.{column}"
        self._address = address
        self._path = f"/{quote(index, safe='')}"
        self._column = column

    def remaining(self, subject: Subject) -> int:
        """Documents of the person, and all deleted ones that a segment still has: nobody can tell whose they are."""
        with self._connect() as client:
            query = self._query(client, subject)
            client.request("POST", f"{self._path}/_refresh")
            found = client.request("POST", f"{self._path}/_count", {"query": query})
            return int(found["count"]) + self._deleted_documents(client)

    def erase(self, subject: Subject) -> None:
        with self._connect() as client:
            query = self._query(client, subject)
            # A document that a job writes at the same time is found by `remaining`.
            client.request(
                "POST", f"{self._path}/_delete_by_query?refresh=true&conflicts=proceed", {"query": query}
            )
            self._expunge(client)

    def _expunge(self, client: OpenSearchClient) -> None:
        """Merge the segments with deleted documents, on every copy of each shard."""
        deadline_s = time.monotonic() + EXPUNGE_S_MAX
        with self._merging_all(client):
            while True:
                client.request("POST", f"{self._path}/_flush?force=true&wait_if_ongoing=true")
                client.request("POST", f"{self._path}/_forcemerge?only_expunge_deletes=true")
                client.request("POST", f"{self._path}/_refresh")
                left = self._deleted_documents(client)
                if not left:
                    return
                if time.monotonic() >= deadline_s:
                    raise ErasureInterrupted(
                        f"{self.name}: OpenSearch keeps {left:,} deleted documents",
                        hint="stop the job that writes the index, bring back its replicas that are unavailable,"
                        " then `headrace erase continue` with the same --place",
                    )
                time.sleep(EXPUNGE_PAUSE_S)

    @contextlib.contextmanager
    def _merging_all(self, client: OpenSearchClient) -> Iterator[None]:
        """By default, a segment of which less than a tenth is deleted is not merged. A crash leaves it so: harmless."""
        found = client.request("GET", f"{self._path}/_settings/{_ALLOWED}?flat_settings=true")
        before = next((each["settings"].get(_ALLOWED) for each in found.values()), None)
        client.request("PUT", f"{self._path}/_settings", {_ALLOWED: "0"})
        try:
            yield
        finally:
            client.request("PUT", f"{self._path}/_settings", {_ALLOWED: before})

    def _deleted_documents(self, client: OpenSearchClient) -> int:
        stats = client.request("GET", f"{self._path}/_stats/docs")
        return int(stats["_all"]["total"].get("docs", {}).get("deleted", 0))

    def _query(self, client: OpenSearchClient, subject: Subject) -> dict[str, Any]:
        mapping = client.request("GET", f"{self._path}/_mapping", missing_ok=True)
        if mapping is None or len(mapping) != 1:
            raise BadErasure(
                f"{self.name}: there is no such index", hint="name the one index of an `OpenSearch` sink"
            )
        columns, _ = columns_of(next(iter(mapping.values()))["mappings"])
        if self._column not in columns.names:
            raise BadErasure(
                f"{self.name}: there is no such column", hint=f"it has {', '.join(columns.names)}"
            )
        kind = columns.field(self._column).type
        field = None if pa.types.is_list(kind) else exact_field(self._column, kind)
        wanted = subject.column(self._column)
        if field is None or len(wanted) > EXACT_CHARS_MAX:
            raise BadErasure(
                f"{self.name}: OpenSearch can't find this value in a column of type {kind}",
                hint="name a column of short texts or numbers",
            )
        value = _value(wanted, kind)
        return {"match_none": {}} if value is None else {"term": {field: value}}

    @contextlib.contextmanager
    def _connect(self) -> Iterator[OpenSearchClient]:
        client = None
        try:
            client = OpenSearchClient(self._address, response_timeout_s=RESPONSE_TIMEOUT_S)
            yield client
        except OpenSearchUnavailable as error:
            raise ErasureInterrupted(f"{self.name}: {error.message}", hint=error.hint) from error
        except (OpenSearchRejected, BadSink) as error:
            raise BadErasure(f"{self.name}: {error.message}", hint=error.hint) from error
        finally:
            if client is not None:
                client.close()


def _value(text: str, kind: pa.DataType) -> str | int | float | bool | None:
    """The text as a value of the column; None if no row has it. OpenSearch rejects a query with another type."""
    if pa.types.is_boolean(kind):
        return {"true": True, "false": False}.get(text)
    if pa.types.is_string(kind):
        return text
    try:
        if pa.types.is_integer(kind):
            number = int(text)
            return number if -(2**63) <= number < 2**63 else None
        return found if math.isfinite(found := float(text)) else None
    except ValueError:
        return None
