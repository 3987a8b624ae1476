"""Requests to OpenSearch over HTTP, on a connection that stays open. Readers use it too: it does not import Spark."""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from headrace.errors import HeadraceError
from headrace.redaction import ESCAPE_HINT, redacted

RESPONSE_TIMEOUT_S = 60.0
RETRY_PAUSE_S = 0.2

_BUSY = (429, 502, 503, 504)
"""Responses of a server, or of a proxy before it, that may be another one soon."""


class OpenSearchUnavailable(HeadraceError):
    """There is no response. The same request may succeed later."""


class OpenSearchRejected(HeadraceError):
    """OpenSearch rejects the request."""

    def __init__(self, status: int, content: Any, request: str) -> None:
        error = content.get("error", {}) if isinstance(content, dict) else {}
        cause = (error.get("root_cause") or [error])[0] if isinstance(error, dict) else {"reason": str(error)}
        self.status = status
        self.kind = str(cause.get("type", ""))
        super().__init__(
            f"OpenSearch responds with {status} to {request}: {cause.get('reason') or content}",
            hint="check the address, and the permissions of the user",
        )


class OpenSearchClient:
    """Used by one thread at a time. `retry_s`: how long a request is repeated while the server is unavailable."""

    def __init__(
        self, at: str, *, retry_s: float = 0.0, response_timeout_s: float = RESPONSE_TIMEOUT_S
    ) -> None:
        self.at = at
        self._retry_s = retry_s
        try:
            parts = urlsplit(at)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise OpenSearchRejected(
                400, {"error": f"{redacted(at)} is not http://HOST:PORT; {ESCAPE_HINT}"}, "nothing"
            )
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, port or 9200, timeout=response_timeout_s)
        self._prefix = parts.path.rstrip("/")
        self._headers = {"Content-Type": "application/json"}
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"

    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, missing_ok: bool = False
    ) -> Any:
        """The decoded response; None if the object is missing and may be."""
        return self._send(method, path, None if body is None else _json(body), missing_ok=missing_ok)

    def bulk(self, index: str, lines: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The result of each action."""
        body = b"".join(_json(line) + b"\n" for line in lines)
        found = self._send("POST", f"/{index}/_bulk", body, missing_ok=False)
        return [next(iter(item.values())) for item in found["items"]]

    def _send(self, method: str, path: str, body: bytes | None, *, missing_ok: bool) -> Any:
        deadline_s = time.monotonic() + self._retry_s
        while True:
            try:
                status, content = self._exchange(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                status, content = 503, str(error)
            if status not in _BUSY:
                break
            if time.monotonic() >= deadline_s:
                raise OpenSearchUnavailable(
                    f"no response from OpenSearch at {redacted(self.at)}: {content}",
                    hint="is it running, and is this its address?",
                )
            time.sleep(RETRY_PAUSE_S)
        if status == 404 and missing_ok:
            return None
        if status >= 400:
            raise OpenSearchRejected(status, content, f"{method} {path}")
        return content

    def _exchange(self, method: str, path: str, body: bytes | None) -> tuple[int, Any]:
        self._connection.request(method, self._prefix + path, body, self._headers)
        response = self._connection.getresponse()
        text = response.read()
        try:
            return response.status, json.loads(text) if text else {}
        except ValueError:
            return response.status, text.decode(errors="replace")[:500]

    def close(self) -> None:
        self._connection.close()


def _json(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
