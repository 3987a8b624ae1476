"""`POST /webhooks/NAME` with real HTTP clients: statuses, limits, and attacks."""

from __future__ import annotations

import gzip
import http.client
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.clock import SystemClock
from headrace.edges.settings import EdgeSettings
from headrace.webhooks.incoming.sample import Sample, sample_of
from headrace.webhooks.incoming.source import Source
from tests.gateway.conftest import Serve, Serving
from tests.webhooks.conftest import events_in
from tests.webhooks.incoming.receiving import stored
from tests.webhooks.incoming.sending import source

RECEIVED = "/webhooks/sample"


@pytest.fixture
def by(topic: str, tmp_path: Path) -> Source:
    return stored(tmp_path, source(topic=topic))


@pytest.fixture
def serving(serve: Serve, tmp_path: Path, by: Source) -> Serving:
    return serve(edge=EdgeSettings(data_dir=tmp_path))


def sample(by: Source, message_id: str = "m", **options: Any) -> Sample:
    return sample_of(by, message_id=message_id, now_ms=SystemClock().now_ms(), **options)


def post(serving: Serving, sent: Sample, path: str = RECEIVED, **headers: str) -> httpx.Response:
    return serving.client.post(path, content=sent.body, headers={**sent.headers, **headers})


def test_webhook_is_in_the_topic_when_it_is_answered(serving: Serving, by: Source) -> None:
    response = post(serving, sample(by))
    assert (response.status_code, response.json()) == (200, {"result": "accepted"})
    (record,) = serving.records(by.topic)
    assert record["value"] == {"id": "m", "type": "headrace.test"}
    assert {each["name"]: each["value"] for each in record["headers"]}["webhook-id"] == "m"
    assert post(serving, sample(by)).json() == {"result": "accepted before"}


def test_page_of_another_site_writes_no_event(serve: Serve, topic: str, tmp_path: Path) -> None:
    stored(tmp_path, source("none", topic=topic))
    closed = serve(edge=EdgeSettings(data_dir=tmp_path))
    page = {"Origin": "https://shop.example", "Content-Type": "text/plain"}
    assert closed.client.post(RECEIVED, content=b"1", headers=page).status_code == 403
    assert closed.records(topic) == []
    allowing = serve(edge=EdgeSettings(data_dir=tmp_path / "other"), cors_origins="https://shop.example")
    stored(tmp_path / "other", source("none", topic=topic))
    assert allowing.client.post(RECEIVED, content=b"1", headers=page).status_code == 200
    assert len(allowing.records(topic)) == 1


def test_wrong_signature_gets_the_same_answer_whatever_is_wrong(serving: Serving, by: Source) -> None:
    right = sample(by)
    answers = [
        post(serving, Sample(headers=right.headers, body=b"other")),
        post(serving, right, **{"webhook-signature": ""}),
        post(serving, right, **{"webhook-signature": "v1,aaaa"}),
        post(serving, right, **{"webhook-timestamp": "1"}),
        post(serving, right, **{"webhook-timestamp": "-1"}),
        post(serving, right, **{"webhook-timestamp": "9" * 30}),
        post(serving, Sample(headers={}, body=b"")),
    ]
    assert {each.status_code for each in answers} == {401}
    assert {each.text for each in answers} == {'{"error_code":401,"message":"not accepted","hint":""}'}
    assert {tuple(sorted(each.headers)) for each in answers} == {
        ("content-length", "content-type", "date", "server")
    }
    assert serving.records(by.topic) == []


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
def test_other_methods_are_not_allowed(serving: Serving, method: str) -> None:
    response = serving.client.request(method, RECEIVED)
    assert response.status_code == 405
    assert response.headers["Allow"] == "POST"


@pytest.mark.parametrize(
    "path",
    [
        "/webhooks/other",
        "/webhooks/SAMPLE",
        "/webhooks/sample.json",
        "/webhooks/..%2fin%2fsample",
        "/webhooks/%2e%2e%2fin%2fsample",
        "/webhooks/../in/sample",
        "/webhooks/.lock",
        "/webhooks/sample%00",
        "/webhooks/sample%0a",
        "/webhooks/s%C3%A4mple",
        "/webhooks/%FF",
        "/webhooks/" + "a" * 10_000,
        "/webhooks/sample/extra",
        "//webhooks/sample",
    ],
)
def test_name_that_is_no_source_is_not_found(serving: Serving, by: Source, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", serving.port, timeout=60)
    sent = sample(by)
    connection.request("POST", path, sent.body, dict(sent.headers))
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    assert response.status == 404
    assert str(by.topic) not in body
    assert serving.records(by.topic) == []


def test_body_over_the_bound_of_the_source_is_rejected_before_it_is_read(
    serving: Serving, by: Source
) -> None:
    """20 MB, of which the client sends no byte before it has the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", serving.port, timeout=60)
    connection.putrequest("POST", RECEIVED)
    connection.putheader("Content-Length", "20000000")
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_body_over_the_bound_without_a_length_is_rejected(serving: Serving) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(40):
            yield b"x" * 50_000

    assert serving.client.post(RECEIVED, content=parts()).status_code == 413


def test_bound_of_a_source_is_its_own(serving: Serving, tmp_path: Path, topic: str) -> None:
    small = stored(tmp_path, source(name="small", topic=topic, body_bytes_max=100))
    assert post(serving, sample(small, body=b"x" * 100), "/webhooks/small").status_code == 200
    assert post(serving, sample(small, body=b"x" * 101), "/webhooks/small").status_code == 413


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "identity, gzip", "GZIP", "chunked"])
def test_compressed_body_is_not_supported(serving: Serving, by: Source, encoding: str) -> None:
    bomb = gzip.compress(b"0" * 10_000_000)
    sent = sample(by, body=bomb)
    assert post(serving, sent, **{"Content-Encoding": encoding}).status_code == 415
    assert post(serving, sent, **{"Content-Encoding": "identity"}).status_code == 200


def test_header_that_is_there_twice_is_not_accepted(serving: Serving, by: Source) -> None:
    sent = sample(by)
    for name in ("webhook-signature", "webhook-id", "webhook-timestamp"):
        response = serving.client.post(
            RECEIVED, content=sent.body, headers=[*sent.headers.items(), (name, sent.headers[name])]
        )
        assert response.status_code == 401


def test_very_long_and_strange_headers_are_not_accepted(serving: Serving, by: Source) -> None:
    sent = sample(by)
    for value in ("v1," + "A" * 50_000, " ".join(["v1,AAAA"] * 5_000), "v1,ünïcödé", "v1,\x7f"):
        headers = [(name, text) for name, text in sent.headers.items() if name != "webhook-signature"]
        raw = [(name.encode(), text.encode()) for name, text in headers]
        response = serving.client.post(
            RECEIVED, content=sent.body, headers=[*raw, (b"webhook-signature", value.encode())]
        )
        assert response.status_code in (400, 401), value[:20]
    assert serving.records(by.topic) == []


def test_replay_in_parallel_is_one_event(serving: Serving, by: Source) -> None:
    sent = sample(by)
    statuses: list[int] = []
    gate = threading.Barrier(16)

    def replay() -> None:
        with httpx.Client(base_url=serving.url, timeout=60) as client:
            gate.wait()
            responses = [client.post(RECEIVED, content=sent.body, headers=sent.headers) for _ in range(5)]
            statuses.extend(each.status_code for each in responses)

    threads = [threading.Thread(target=replay) for _ in range(16)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert set(statuses) == {200}
    assert len(serving.records(by.topic)) == 1


def test_source_over_its_rate_gets_429_with_retry_after(serve: Serve, tmp_path: Path, topic: str) -> None:
    by = stored(tmp_path, source(topic=topic, rate_per_s_max=1))
    serving = serve(edge=EdgeSettings(data_dir=tmp_path))
    responses = [post(serving, sample(by, f"m{number}")) for number in range(20)]
    rejected = [each for each in responses if each.status_code == 429]
    assert rejected
    assert all(int(each.headers["Retry-After"]) >= 1 for each in rejected)
    assert len(serving.records(topic)) == len(responses) - len(rejected)


def test_source_is_added_changed_and_removed_while_the_gateway_runs(
    serving: Serving, tmp_path: Path, topic: str
) -> None:
    new = source(name="new", topic=topic)
    assert post(serving, sample(new), "/webhooks/new").status_code == 404
    stored(tmp_path, new)
    assert post(serving, sample(new), "/webhooks/new").status_code == 200
    (tmp_path / "webhooks" / "in" / "new.json").write_text("{")
    damaged = post(serving, sample(new), "/webhooks/new")
    assert damaged.status_code == 503
    assert "new.json" not in damaged.text
    (tmp_path / "webhooks" / "in" / "new.json").unlink()
    assert post(serving, sample(new), "/webhooks/new").status_code == 404


def test_dead_letter_is_202_so_that_the_sender_stops(serving: Serving, tmp_path: Path, topic: str) -> None:
    by = stored(tmp_path, source(topic=topic, key_field="user"))
    response = post(serving, sample(by, body=b"{}"))
    assert (response.status_code, response.json()) == (202, {"result": "kept as a dead letter"})
    assert [value for value, _headers in events_in(serving.cluster, f"dlq.{topic}")] == [b"{}"]


def test_metrics_have_every_outcome_by_source(serving: Serving, by: Source) -> None:
    for _ in range(2):
        post(serving, sample(by))
    post(serving, Sample(headers={}, body=b""))
    post(serving, sample(by), "/webhooks/other")
    text = serving.client.get("/metrics").text
    for line in (
        'headrace_webhook_in_requests_total{outcome="accepted",source="sample"} 1.0',
        'headrace_webhook_in_requests_total{outcome="duplicate",source="sample"} 1.0',
        'headrace_webhook_in_rejected_total{reason="missing",source="sample"} 1.0',
        'headrace_webhook_in_rejected_total{reason="unknown name",source=""} 1.0',
    ):
        assert line in text


def test_sender_that_disconnects_and_sends_again_has_one_event(serving: Serving, by: Source) -> None:
    sent = sample(by)
    for _ in range(10):
        connection = http.client.HTTPConnection("127.0.0.1", serving.port, timeout=60)
        connection.request("POST", RECEIVED, sent.body, dict(sent.headers))
        connection.close()
    assert post(serving, sent).status_code == 200
    deadline_s = time.monotonic() + 60
    while not serving.records(by.topic):
        assert time.monotonic() < deadline_s
    assert len(serving.records(by.topic)) == 1


def test_page_of_the_paths_lists_webhooks(serving: Serving) -> None:
    operation = serving.client.get("/openapi.json").json()["paths"]["/webhooks/{name}"]["post"]
    assert {"200", "202", "401", "413", "415", "429", "503"} <= set(operation["responses"])
