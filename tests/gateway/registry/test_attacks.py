"""Requests that were made to hurt: each gets a clear error, and the registry serves on."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.gateway.registry.conftest import OpenRegistry
from tests.gateway.registry.serving import served

pytestmark = pytest.mark.timeout(180)

ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})


@pytest.fixture(autouse=True)
def serves_on(http: httpx.Client) -> Iterator[None]:
    yield
    http.post("/subjects/afterwards/versions", json={"schema": ORDER}).raise_for_status()


def code(response: httpx.Response) -> tuple[int, int]:
    return response.status_code, response.json()["error_code"]


def nested(start: str, inner: str, end: str, depth: int) -> str:
    return start * depth + inner + end * depth


def record(prefix: str, count: int, type_: str = "int") -> dict[str, Any]:
    fields = [{"name": f"{prefix}{number}", "type": type_} for number in range(count)]
    return {"type": "record", "name": "R", "fields": fields}


def test_a_schema_of_ten_megabytes_is_rejected_before_it_is_read(http: httpx.Client) -> None:
    response = http.post("/subjects/s/versions", json={"schema": json.dumps("x" * 10_000_000)})
    assert code(response) == (413, 413)
    assert "1,900,000 bytes" in response.json()["message"]


def test_a_thousand_references_are_rejected(http: httpx.Client) -> None:
    references = [{"name": f"n{number}", "subject": "s", "version": 1} for number in range(1_000)]
    response = http.post("/subjects/s/versions", json={"schema": ORDER, "references": references})
    assert code(response) == (422, 42201)
    assert "200 references" in response.json()["message"]


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("AVRO", nested('{"type":"array","items":', '"int"', "}", 20_000)),
        ("AVRO", nested('{"type":"record","name":"R","fields":[{"name":"a","type":', '"int"', "}]}", 5_000)),
        ("JSON", nested('{"items":', "{}", "}", 240)),
        ("JSON", nested('{"items":', "{}", "}", 20_000)),
        ("PROTOBUF", nested("message M {", "", "}", 5_000)),
        ("PROTOBUF", nested("message M {", "", "}", 60)),
    ],
)
def test_a_schema_that_is_nested_too_deep_is_rejected(http: httpx.Client, type_: str, text: str) -> None:
    response = http.post("/subjects/s/versions", json={"schema": text, "schemaType": type_})
    assert code(response) == (422, 42201)
    assert any(word in response.json()["message"] for word in ("deep", "recursion", "nested"))


def test_a_body_that_is_nested_too_deep_is_rejected(http: httpx.Client) -> None:
    assert code(http.post("/subjects/s/versions", content=b"[" * 100_000))[0] in (400, 422)
    body = b'{"schema": "x", "metadata": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001
    assert code(http.post("/subjects/s/versions", content=body))[0] in (400, 422)


@pytest.mark.parametrize("path", ["/etc/passwd", "../x.proto", "a/../../x.proto", "x\0.proto"])
def test_an_import_stays_in_its_folder(http: httpx.Client, path: str) -> None:
    text = 'syntax = "proto3"; message M {}'
    http.post("/subjects/m/versions", json={"schema": text, "schemaType": "PROTOBUF"}).raise_for_status()
    reference = {"name": path, "subject": "m", "version": 1}
    body = {"schema": text, "schemaType": "PROTOBUF", "references": [reference]}
    assert code(http.post("/subjects/s/versions", json=body)) == (422, 42201)


@pytest.mark.parametrize("subject", ["a\0b", "a\nb", "\x1b[2J", "x" * 10_000])
def test_a_subject_with_control_characters_or_too_many_is_rejected_wherever_it_is_written(
    http: httpx.Client, subject: str
) -> None:
    name = quote(subject, safe="")
    assert code(http.post(f"/subjects/{name}/versions", json={"schema": ORDER})) == (422, 42208)
    assert code(http.put(f"/config/{name}", json={"compatibility": "FULL"})) == (422, 42208)
    assert code(http.put(f"/mode/{name}", json={"mode": "READWRITE"})) == (422, 42208)


@pytest.mark.parametrize(
    "subject", ["<script>alert(1)</script>", "../../etc/passwd", "%", "é/x", "a?b#c", "\u202eb"]
)
def test_a_hostile_name_is_a_name(http: httpx.Client, subject: str) -> None:
    path = f"/subjects/{quote(subject, safe='')}"
    http.post(f"{path}/versions", json={"schema": ORDER}).raise_for_status()
    assert http.get(f"{path}/versions").json() == [1]
    response = http.get("/subjects")
    assert subject in response.json()
    assert response.headers["content-type"].endswith("json")


def test_wide_schemas_are_compared_within_bounds(http: httpx.Client) -> None:
    """Twenty thousand fields, and unions of which every branch would be compared with every other."""
    wide, other = json.dumps(record("f", 20_000)), json.dumps(record("f", 20_000, "string"))
    http.post("/subjects/wide/versions", json={"schema": wide}).raise_for_status()
    path = "/compatibility/subjects/{}/versions/latest?verbose=true"
    assert not http.post(path.format("wide"), json={"schema": other}).json()["is_compatible"]
    unions = [
        json.dumps([{**record("a", 1), "name": f"{letter}{number}"} for number in range(2_000)])
        for letter in "QR"
    ]
    http.post("/subjects/union/versions", json={"schema": unions[0]}).raise_for_status()
    found = http.post(path.format("union"), json={"schema": unions[1]}).json()
    assert (found["is_compatible"], "TOO_COMPLEX" in found["messages"][0]) == (False, True)
    assert http.post(path.format("union"), json={"schema": unions[0]}).json()["is_compatible"]


def test_two_gateways_that_register_at_once_assign_each_id_once(open_registry: OpenRegistry) -> None:
    found: list[tuple[str, int]] = []
    failed: list[str] = []

    def register(url: str, owner: str) -> None:
        with httpx.Client(base_url=url, timeout=60) as client:
            for number in range(8):
                own = ORDER.replace("Order", f"Order{owner}{number}")
                shared = ORDER.replace("Order", f"Shared{number}")
                for text in (own, shared):
                    response = client.post(f"/subjects/{owner}{number}/versions", json={"schema": text})
                    if response.status_code == 200:
                        found.append((text, response.json()["id"]))
                    elif response.status_code != 409:
                        failed.append(response.text)

    with served(open_registry()) as one, served(open_registry()) as two:
        for url in (one, two):
            httpx.put(f"{url}/config", json={"compatibility": "NONE"}).raise_for_status()
        threads = [
            threading.Thread(target=register, args=pair)
            for pair in ((one, "a"), (two, "b"), (one, "c"), (two, "d"))
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        schemas = [httpx.get(f"{url}/schemas").json() for url in (one, two)]
    assert failed == []
    ids = {text: {number for each, number in found if each == text} for text, _ in found}
    assert all(len(each) == 1 for each in ids.values())
    assert len({min(each) for each in ids.values()}) == len(ids) == 40
    assert schemas[0] == schemas[1]


def test_a_gateway_that_is_killed_loses_nothing_that_it_acknowledged(
    bootstrap: str, topic: str, open_registry: OpenRegistry
) -> None:
    program = (
        "import sys\n"
        "from headrace.gateway.registry.registry import Registry\n"
        "from headrace.gateway.registry.changes import Wanted\n"
        "from headrace.schemas.definition import Definition\n"
        f"registry = Registry.open({bootstrap!r}, topic={topic!r})\n"
        "for number in range(1_000_000):\n"
        '    text = \'{"type": "fixed", "name": "F%d", "size": 1}\' % number\n'
        "    wanted = Wanted(definition=Definition(text=text))\n"
        "    print(registry.register('s%d' % number, wanted, normalize=False).id, number, flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        acknowledged = [process.stdout.readline().split() for _ in range(20)]
        process.kill()
        acknowledged += [line.split() for line in process.stdout if line.endswith("\n")]
    registry = open_registry()
    for schema_id, number in acknowledged:
        (version,) = registry.versions(f"s{number}", deleted=False)
        assert version.id == int(schema_id)
