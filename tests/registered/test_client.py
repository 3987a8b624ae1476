"""What readers and writers request of a registry, with a real one."""

from __future__ import annotations

import http.server
import json
import threading
import uuid
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient

from headrace.errors import HeadraceError
from headrace.registered.client import RESPONSE_BYTES_MAX, RegistryClient
from headrace.registered.errors import RegistryUnavailable, RequestRejected
from headrace.schemas.definition import Definition, Reference, SchemaType

ADDRESS = '{"type": "record", "name": "shop.Address", "fields": []}'
ORDER = '{"type": "record", "name": "shop.Order", "fields": [{"name": "to", "type": "shop.Address"}]}'


@pytest.fixture
def subject() -> str:
    return f"a/b ü-{uuid.uuid4().hex[:8]}"


def test_schema_comes_with_its_references(registry: str, client: SchemaRegistryClient, subject: str) -> None:
    ours = RegistryClient(registry)
    ours.register(f"{subject}-address", Definition(text=ADDRESS))
    reference = Reference("shop.Address", f"{subject}-address", 1)
    number = ours.register(subject, Definition(text=ORDER, references=(reference,)))
    latest = ours.version(subject)
    assert (latest.id, latest.subject, latest.version) == (number, subject, 1)
    assert latest.schema.avro().names.keys() == {"shop.Address", "shop.Order"}
    assert ours.by_id(number).schema == latest.schema
    same = client.register_schema(
        subject, Schema(ORDER, "AVRO", [SchemaReference("shop.Address", f"{subject}-address", 1)])
    )
    assert same == number


def test_newest_versions_are_read_oldest_first(registry: str, subject: str) -> None:
    ours = RegistryClient(registry)
    for number in range(3):
        text = json.dumps({"type": "object", "title": str(number)})
        ours.register(subject, Definition(text=text, type=SchemaType.JSON))
    assert [each.version for each in ours.all_versions(subject, newest=2)] == [2, 3]


def test_rejection_has_the_code_of_the_registry(registry: str, subject: str) -> None:
    ours = RegistryClient(registry)
    with pytest.raises(RequestRejected) as missing:
        ours.version(subject)
    assert (missing.value.code, missing.value.is_missing) == (40401, True)
    ours.register(subject, Definition(text='"long"'))
    with pytest.raises(RequestRejected) as incompatible:
        ours.register(subject, Definition(text='"boolean"'))
    assert (incompatible.value.code, incompatible.value.is_missing) == (409, False)
    assert "compatibility level" in incompatible.value.hint


def test_any_of_several_addresses_answers(registry: str, subject: str) -> None:
    assert RegistryClient(f"http://127.0.0.1:1, {registry}").register(subject, Definition(text='"long"')) > 0


@pytest.mark.parametrize("url", ["", "127.0.0.1:8082", "ftp://a", "http://", "http://a?b=c", "http://[::1"])
def test_what_is_no_address_is_rejected(url: str) -> None:
    with pytest.raises(HeadraceError) as raised:
        RegistryClient(url)
    assert "http://" in raised.value.hint


def test_unavailable_registry_is_named_without_its_password() -> None:
    with pytest.raises(RegistryUnavailable) as raised:
        RegistryClient("http://ann:secret@127.0.0.1:1").by_id(1)
    assert raised.value.message.startswith("no schema registry answers at http://127.0.0.1:1: ")
    assert "secret" not in str(raised.value)


class _Answers(http.server.BaseHTTPRequestHandler):
    answers: ClassVar[dict[str, tuple[int, bytes]]] = {}
    seen: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self.seen.append(self.headers["Authorization"])
        status, body = self.answers[self.path.rpartition("/")[2]]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def answering() -> Iterator[str]:
    """Another server than a registry, or one in trouble."""
    _Answers.seen.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "body", "error", "problem"),
    [
        (500, b'{"error_code": 50001, "message": "in trouble"}', RegistryUnavailable, "500: in trouble"),
        (503, b"<html>", RegistryUnavailable, "503"),
        (429, b"{}", RegistryUnavailable, "429"),
        (401, b"{}", RequestRejected, "Unauthorized"),
        (200, b"<html>", HeadraceError, "not a schema registry"),
        (200, b"[]", HeadraceError, "not a schema registry"),
        (200, b" " * (RESPONSE_BYTES_MAX + 1), HeadraceError, "more than"),
    ],
)
def test_answer_that_is_no_schema_is_an_error_of_its_kind(
    answering: str, status: int, body: bytes, error: type[Exception], problem: str
) -> None:
    _Answers.answers = {"1": (status, body)}
    with pytest.raises(error, match=problem) as raised:
        RegistryClient(f"http://{answering}").by_id(1)
    assert type(raised.value) is error


def test_user_and_password_of_the_address_are_sent(answering: str) -> None:
    _Answers.answers = {"1": (200, b'{"schema": "\\"long\\""}')}
    assert RegistryClient(f"http://ann:p%40ss@{answering}").by_id(1).schema.text == '"long"'
    assert _Answers.seen == ["Basic YW5uOnBAc3M="]


def test_reference_that_leads_back_is_an_error(answering: str) -> None:
    looped = json.dumps(
        {"schema": '"a"', "references": [{"name": "a", "subject": "s", "version": 1}]}
    ).encode()
    _Answers.answers = {"1": (200, looped), "1?deleted=true": (200, looped)}
    with pytest.raises(HeadraceError, match="refers to itself"):
        RegistryClient(f"http://{answering}").by_id(1)
