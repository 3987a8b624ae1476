"""The client with a server that responds as it is told: one that restarts, or rejects."""

from __future__ import annotations

import base64
import http.server
import threading
from collections.abc import Iterator

import pytest

from headrace.pipeline.sinks.opensearch_client import (
    OpenSearchClient,
    OpenSearchRejected,
    OpenSearchUnavailable,
)
from headrace.testing import free_port


class _Server(http.server.ThreadingHTTPServer):
    responses: list[tuple[int, bytes]]
    seen: list[tuple[str, str, bytes, str | None]]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._respond()

    def do_POST(self) -> None:
        self._respond()

    def _respond(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.command, self.path, body, self.headers.get("Authorization")))
        status, content = self.server.responses.pop(0)
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.responses, server.seen = [], []
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def address(server: _Server, user: str = "") -> str:
    return f"http://{user}127.0.0.1:{server.server_port}"


def test_request_is_repeated_while_the_server_is_busy(server: _Server) -> None:
    server.responses = [(503, b""), (429, b"busy"), (200, b'{"ok": true}')]
    client = OpenSearchClient(address(server), retry_s=60)
    assert client.request("GET", "/x") == {"ok": True}
    client.close()


def test_server_that_stays_busy_or_away_is_unavailable(server: _Server) -> None:
    server.responses = [(503, b"starting")]
    client = OpenSearchClient(address(server))
    with pytest.raises(OpenSearchUnavailable, match="starting"):
        client.request("GET", "/x")
    client.close()
    with pytest.raises(OpenSearchUnavailable, match="no response"):
        OpenSearchClient(f"http://127.0.0.1:{free_port()}").request("GET", "/x")


def test_rejection_has_the_reason_of_the_server(server: _Server) -> None:
    server.responses = [
        (400, b'{"error": {"root_cause": [{"type": "parsing_exception", "reason": "no such thing"}]}}'),
        (404, b'{"error": "missing"}'),
        (404, b"{}"),
    ]
    client = OpenSearchClient(address(server))
    with pytest.raises(OpenSearchRejected, match="400 to GET /x: no such thing") as raised:
        client.request("GET", "/x")
    assert (raised.value.status, raised.value.kind) == (400, "parsing_exception")
    with pytest.raises(OpenSearchRejected, match="missing"):
        client.request("GET", "/x")
    assert client.request("GET", "/x", missing_ok=True) is None
    client.close()


def test_user_and_password_are_sent_and_not_shown(server: _Server) -> None:
    server.responses = [(200, b"{}"), (503, b"")]
    client = OpenSearchClient(address(server, "ada:s%40cret@"))
    client.request("GET", "/x")
    assert server.seen[0][3] == f"Basic {base64.b64encode(b'ada:s@cret').decode()}"
    with pytest.raises(OpenSearchUnavailable) as raised:
        client.request("GET", "/x")
    client.close()
    assert "cret" not in str(raised.value)


def test_bulk_request_has_a_line_for_each_part(server: _Server) -> None:
    server.responses = [(200, b'{"items": [{"index": {"status": 201}}, {"delete": {"status": 404}}]}')]
    client = OpenSearchClient(address(server))
    found = client.bulk("users", [{"index": {"_id": "1"}}, {"city": "Å"}, {"delete": {"_id": "2"}}])
    client.close()
    assert [each["status"] for each in found] == [201, 404]
    assert server.seen[0][1:3] == (
        "/users/_bulk",
        '{"index":{"_id":"1"}}\n{"city":"Å"}\n{"delete":{"_id":"2"}}\n'.encode(),
    )


@pytest.mark.parametrize("at", ["127.0.0.1:9200", "ftp://host", "http://", "http://host:port"])
def test_what_is_no_address_is_rejected(at: str) -> None:
    with pytest.raises(OpenSearchRejected, match="is not http"):
        OpenSearchClient(at)
