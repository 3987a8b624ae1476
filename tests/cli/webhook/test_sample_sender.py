"""Samples are sent as they are, and every response is shown, also that of an error."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from headrace.cli.webhook.sample_sender import send
from headrace.webhooks.errors import BadWebhook
from headrace.webhooks.incoming.sample import Sample

SAMPLE = Sample(headers={"X-Signature": "abc"}, body=b"\x00body")


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        is_sample = (self.headers["X-Signature"], body) == ("abc", SAMPLE.body)
        self.send_response(200 if is_sample and self.path == "/good" else 401)
        self.end_headers()
        self.wfile.write(b"answer")

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


@pytest.fixture
def receiver() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_status_and_body_of_every_response_are_returned(receiver: str) -> None:
    assert send(f"{receiver}/good", SAMPLE) == (200, "answer")
    assert send(f"{receiver}/bad", SAMPLE) == (401, "answer")


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "no address", "http://", "file:///etc/hostname"])
def test_address_that_does_not_answer_is_an_error_with_the_remedy(url: str) -> None:
    with pytest.raises(BadWebhook, match="can't send to") as caught:
        send(url, SAMPLE)
    assert "--url" in caught.value.hint
