"""The HTTP API, with Confluent's client and serializers, and by hand."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from headrace.gateway.registry.limits import RegistryLimits
from headrace.gateway.registry.negotiation import JSON_V1
from headrace.gateway.registry.registry import Registry
from headrace.gateway.settings import GatewaySettings
from headrace.schemas.protobuf.compiler import compile_proto
from tests.gateway.registry.conftest import OpenRegistry
from tests.gateway.registry.serving import served

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def client(url: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": url}) as client:
        yield client


def record(*fields: dict[str, Any], name: str = "Order") -> str:
    return json.dumps({"type": "record", "name": name, "fields": list(fields)})


ORDER = record({"name": "id", "type": "long"})
WITH_NOTE = record({"name": "id", "type": "long"}, {"name": "note", "type": "string", "default": ""})
WITH_PRICE = record({"name": "id", "type": "long"}, {"name": "price", "type": "double"})
VALUE = SerializationContext("orders", MessageField.VALUE)
OTHER_VALUE = SerializationContext("others", MessageField.VALUE)


def body(text: str, **more: Any) -> dict[str, Any]:
    return {"schema": text, **more}


def code(response: httpx.Response) -> tuple[int, int]:
    return response.status_code, response.json()["error_code"]


# Confluent's client


def test_confluents_avro_serializers_register_and_read(client: SchemaRegistryClient) -> None:
    data = AvroSerializer(client, ORDER)({"id": 7}, VALUE)
    assert data is not None
    assert data[:5] == b"\x00\x00\x00\x00\x01"
    newer = AvroSerializer(client, WITH_NOTE)({"id": 8, "note": "x"}, VALUE)
    assert newer is not None
    read = AvroDeserializer(client, WITH_NOTE)
    assert [read(each, VALUE) for each in (data, newer)] == [{"id": 7, "note": ""}, {"id": 8, "note": "x"}]
    assert client.get_versions("orders-value") == [1, 2]


def test_confluents_json_serializers_register_and_read(client: SchemaRegistryClient) -> None:
    address = json.dumps({"type": "object", "properties": {"city": {"type": "string"}}, "title": "address"})
    client.register_schema("address", Schema(address, "JSON"))
    text = json.dumps({"type": "object", "title": "person", "properties": {"home": {"$ref": "address.json"}}})
    person = Schema(text, "JSON", [SchemaReference("address.json", "address", 1)])
    data = JSONSerializer(person, client)({"home": {"city": "Oslo"}}, VALUE)
    assert data is not None
    assert JSONDeserializer(person, schema_registry_client=client)(data, VALUE) == {"home": {"city": "Oslo"}}
    with pytest.raises(SerializationError):
        JSONSerializer(person, client)({"home": {"city": 7}}, VALUE)


def test_confluents_protobuf_serializers_register_and_read(client: SchemaRegistryClient) -> None:
    """A message with an import, and a nested one whose number is not the first."""
    order, line = generated_messages()
    options = {"use.deprecated.format": False}
    placed = order(
        id=7, price=order.DESCRIPTOR.fields_by_name["price"].message_type._concrete_class(cents=250)
    )
    second = line(name="x")
    for message, context in ((placed, VALUE), (second, OTHER_VALUE)):
        data = ProtobufSerializer(type(message), client, options)(message, context)
        assert data is not None
        assert ProtobufDeserializer(type(message), options, client)(data, context) == message
    assert client.get_subjects() == ["orders-value", "others-value", "shop/money.proto"]


def generated_messages() -> tuple[Any, Any]:
    """The classes that generated code would have."""
    money = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; }'
    order = (
        'syntax = "proto3"; package shop; import "shop/money.proto";'
        " message Order { int64 id = 1; Money price = 2; message Note {} message Line { string name = 1; } }"
    )
    pool = DescriptorPool()
    for file in compile_proto(order, {"shop/money.proto": money}).file:
        pool.Add(file)
    names = ("shop.Order", "shop.Order.Line")
    found = [GetMessageClass(pool.FindMessageTypeByName(name)) for name in names]
    return found[0], found[1]


def test_a_protobuf_schema_is_shown_as_text_and_as_a_descriptor(http: httpx.Client) -> None:
    text = 'syntax = "proto3"; message M { int32 a = 1; }'
    http.post("/subjects/s/versions", json=body(text, schemaType="PROTOBUF")).raise_for_status()
    found = http.get("/schemas/ids/1").json()
    assert found == {"schemaType": "PROTOBUF", "schema": text}
    descriptor = http.get("/subjects/s/versions/1?format=serialized").json()["schema"]
    response = http.post("/subjects/s", json=body(descriptor, schemaType="PROTOBUF"))
    assert response.json()["version"] == 1
    response = http.post(
        "/subjects/s/versions", json=body(text.replace("int32", "string"), schemaType="PROTOBUF")
    )
    assert code(response) == (409, 409)


def test_confluents_serializer_is_rejected_if_its_schema_is_incompatible(
    client: SchemaRegistryClient,
) -> None:
    AvroSerializer(client, ORDER)({"id": 7}, VALUE)
    with pytest.raises(SchemaRegistryError) as raised:
        AvroSerializer(client, WITH_PRICE)({"id": 7, "price": 1.0}, VALUE)
    assert (raised.value.http_status_code, raised.value.error_code) == (409, 409)


def test_confluents_client_manages_subjects(client: SchemaRegistryClient) -> None:
    schema = Schema(ORDER, "AVRO")
    assert client.register_schema("a/b", schema) == 1
    assert client.register_schema("c", schema) == 1
    assert client.get_subjects() == ["a/b", "c"]
    assert client.get_subjects(subject_prefix="a") == ["a/b"]
    assert client.get_subjects_by_schema_id(1) == ["a/b", "c"]
    assert [(each.subject, each.version) for each in client.get_schema_versions(1)] == [("a/b", 1), ("c", 1)]
    assert client.get_schema_types() == ["JSON", "PROTOBUF", "AVRO"]
    found = client.lookup_schema("a/b", schema)
    assert (found.schema_id, found.version, found.subject) == (1, 1, "a/b")
    assert client.get_latest_version("a/b").schema_id == 1
    assert client.get_version("a/b", 1).schema_id == 1
    assert client.delete_version("c", 1) == 1
    assert client.delete_subject("a/b") == [1]
    assert client.delete_subject("a/b", permanent=True) == [1]
    assert client.get_subjects() == []
    assert client.get_subjects(deleted=True) == ["c"]


def test_confluents_client_sets_levels_and_modes(client: SchemaRegistryClient) -> None:
    assert client.get_compatibility() == "BACKWARD"
    client.set_compatibility(level="FULL")
    client.set_compatibility("s", "NONE")
    assert (client.get_compatibility(), client.get_compatibility("s")) == ("FULL", "NONE")
    client.delete_config("s")
    with pytest.raises(SchemaRegistryError) as raised:
        client.get_compatibility("s")
    assert raised.value.error_code == 40408
    assert client.get_global_mode() == "READWRITE"
    client.update_mode("s", "READONLY")
    with pytest.raises(SchemaRegistryError) as raised:
        client.register_schema("s", Schema(ORDER, "AVRO"))
    assert raised.value.error_code == 42205
    client.delete_mode("s")
    assert client.register_schema("s", Schema(ORDER, "AVRO")) == 1


def test_confluents_client_checks_compatibility(client: SchemaRegistryClient) -> None:
    client.register_schema("s", Schema(ORDER, "AVRO"))
    assert client.test_compatibility("s", Schema(WITH_NOTE, "AVRO"))
    assert not client.test_compatibility("s", Schema(WITH_PRICE, "AVRO"))
    assert not client.test_compatibility_all_versions("s", Schema(WITH_PRICE, "AVRO"))


def test_confluents_client_uses_references(client: SchemaRegistryClient) -> None:
    money = Schema('{"type": "fixed", "name": "Money", "size": 8}', "AVRO")
    client.register_schema("money", money)
    price = Schema(record({"name": "price", "type": "Money"}), "AVRO", [SchemaReference("Money", "money", 1)])
    number = client.register_schema("price", price)
    assert client.get_referenced_by("money", 1) == [number]
    assert client.get_schema(number).references == price.references
    data = AvroSerializer(client, price)({"price": b"12345678"}, VALUE)
    assert data is not None
    assert AvroDeserializer(client)(data, VALUE) == {"price": b"12345678"}
    with pytest.raises(SchemaRegistryError) as raised:
        client.delete_subject("money")
    assert raised.value.error_code == 42206


# The API by hand


@pytest.mark.parametrize(
    ("method", "path", "content", "expected"),
    [
        ("GET", "/schemas/ids/99", None, (404, 40403)),
        ("GET", "/schemas/ids/99/versions", None, (404, 40403)),
        ("GET", "/schemas/ids/99999999999999999999", None, (404, 40403)),
        ("GET", "/schemas/ids/x", None, (404, 404)),
        ("GET", "/subjects/none/versions", None, (404, 40401)),
        ("GET", "/subjects/none/versions/1", None, (404, 40401)),
        ("GET", "/subjects/none/metadata", None, (404, 40401)),
        ("GET", "/subjects/orders/metadata?key=a&value=b", None, (404, 40403)),
        ("GET", "/subjects/orders/metadata?key=a", None, (422, 422)),
        ("GET", "/subjects/orders/versions/9", None, (404, 40402)),
        ("GET", "/subjects/orders/versions/0", None, (422, 42202)),
        ("GET", "/subjects/orders/versions/x/schema", None, (422, 42202)),
        ("GET", "/subjects?limit=x", None, (422, 422)),
        ("POST", "/subjects/orders/versions", {}, (422, 42201)),
        ("POST", "/subjects/orders/versions", [], (422, 422)),
        ("POST", "/subjects/orders/versions", body("{"), (422, 42201)),
        ("POST", "/subjects/orders/versions", body(WITH_PRICE), (409, 409)),
        ("POST", "/subjects/orders/versions", body('"Money"', references=[
            {"name": "Money", "subject": "money", "version": 1}]), (422, 42201)),
        ("POST", "/subjects/orders/versions", body(ORDER, id=9), (422, 42205)),
        ("POST", "/subjects/orders", body('"int"'), (404, 40403)),
        ("POST", "/subjects/none", body('"int"'), (404, 40401)),
        ("POST", "/compatibility/subjects/orders/versions/9", body('"int"'), (404, 40402)),
        ("POST", "/compatibility/subjects/none/versions/1", body('"int"'), (404, 40402)),
        ("POST", "/compatibility/subjects/orders/versions/x", body('"int"'), (422, 42202)),
        ("DELETE", "/subjects/none", None, (404, 40401)),
        ("DELETE", "/subjects/orders?permanent=true", None, (404, 40405)),
        ("DELETE", "/subjects/orders/versions/9", None, (404, 40402)),
        ("DELETE", "/subjects/orders/versions/1?permanent=true", None, (404, 40407)),
        ("PUT", "/config", {"compatibility": "SIDEWARD"}, (422, 42203)),
        ("PUT", "/config", {}, (422, 42203)),
        ("PUT", "/mode", {"mode": "WRITEONLY"}, (422, 42204)),
        ("PUT", "/mode", {"mode": "IMPORT"}, (422, 42205)),
        ("GET", "/config/orders", None, (404, 40408)),
        ("GET", "/mode/orders", None, (404, 40409)),
        ("DELETE", "/config/none", None, (404, 40401)),
        ("DELETE", "/mode/none", None, (404, 40401)),
    ],
)  # fmt: skip
def test_an_error_has_the_status_and_the_code_of_the_api(
    url_of_orders: str, method: str, path: str, content: Any, expected: tuple[int, int]
) -> None:
    response = httpx.request(method, url_of_orders + path, json=content)
    assert code(response) == expected
    assert response.json()["message"]
    assert response.headers["content-type"] == JSON_V1


@pytest.fixture(scope="module")
def url_of_orders(bootstrap: str) -> Iterator[str]:
    """A registry with a subject `orders`, which no test changes."""
    registry = Registry.open(bootstrap, topic=f"_schemas-errors-{time.time_ns()}")
    with served(registry) as url:
        httpx.post(f"{url}/subjects/orders/versions", json=body(ORDER)).raise_for_status()
        yield url
    registry.close()


def test_deleted_versions_are_shown_on_request(http: httpx.Client) -> None:
    http.put("/config", json={"compatibility": "NONE"})
    for text in (ORDER, WITH_NOTE):
        assert http.post("/subjects/s/versions", json=body(text)).status_code == 200
    assert http.delete("/subjects/s/versions/1").json() == 1
    assert http.get("/subjects/s/versions").json() == [2]
    assert http.get("/subjects/s/versions?deleted=true").json() == [1, 2]
    assert http.get("/subjects/s/versions?deletedOnly=true").json() == [1]
    assert http.get("/schemas/ids/1/versions").json() == []
    assert http.get("/schemas/ids/1/versions?deleted=true").json() == [{"subject": "s", "version": 1}]
    assert code(http.get("/subjects/s/versions/1")) == (404, 40402)
    assert http.get("/subjects/s/versions/1?deleted=true").json()["version"] == 1
    assert http.get("/schemas/ids/1").status_code == 200
    assert code(http.post("/subjects/s", json=body(ORDER))) == (404, 40403)
    assert http.post("/subjects/s?deleted=true", json=body(ORDER)).json()["version"] == 1
    assert http.delete("/subjects/s").json() == [2]
    assert http.get("/subjects?deletedOnly=true").json() == ["s"]


def test_lists_have_pages(http: httpx.Client) -> None:
    for n in range(5):
        http.post(f"/subjects/s{n}/versions", json=body(ORDER)).raise_for_status()
    assert http.get("/subjects?offset=1&limit=2").json() == ["s1", "s2"]
    assert http.get("/subjects?offset=4").json() == ["s4"]
    assert http.get("/subjects?limit=0").json() == []
    assert [each["subject"] for each in http.get("/schemas?limit=1&offset=3").json()] == ["s3"]
    assert http.get("/subjects?subjectPrefix=s3").json() == ["s3"]
    assert len(http.get("/subjects?subjectPrefix=:*:").json()) == 5


def test_all_schemas_are_listed(http: httpx.Client) -> None:
    http.post("/subjects/s/versions", json=body(ORDER)).raise_for_status()
    http.post("/subjects/s/versions", json=body(WITH_NOTE)).raise_for_status()
    assert [each["version"] for each in http.get("/schemas").json()] == [1, 2]
    assert [each["version"] for each in http.get("/schemas?latestOnly=true").json()] == [2]


def test_a_schema_is_shown_as_text_and_with_its_subjects(http: httpx.Client) -> None:
    http.post("/subjects/s/versions", json=body(ORDER)).raise_for_status()
    assert http.get("/schemas/ids/1/schema").json() == json.loads(ORDER)
    assert http.get("/subjects/s/versions/latest/schema").json() == json.loads(ORDER)
    found = http.get("/schemas/ids/1?fetchMaxId=true&includeSubjects=true").json()
    assert (found["maxId"], found["subjects"]) == (1, ["s"])


def test_reasons_of_an_incompatibility_are_shown_when_they_are_requested(http: httpx.Client) -> None:
    http.post("/subjects/s/versions", json=body(ORDER)).raise_for_status()
    path = "/compatibility/subjects/s/versions/latest"
    assert http.post(path, json=body(WITH_PRICE)).json() == {"is_compatible": False}
    found = http.post(f"{path}?verbose=true", json=body(WITH_PRICE)).json()
    assert "READER_FIELD_MISSING_DEFAULT_VALUE at /fields/1" in found["messages"][0]
    assert http.post(f"{path}?verbose=true", json=body(WITH_NOTE)).json() == {
        "is_compatible": True,
        "messages": [],
    }
    assert http.post("/compatibility/subjects/none/versions/latest", json=body(ORDER)).json()["is_compatible"]


def test_an_invalid_schema_is_a_reason_of_an_incompatibility(http: httpx.Client) -> None:
    http.post("/subjects/s/versions", json=body(ORDER)).raise_for_status()
    path = "/compatibility/subjects/s/versions/latest"
    found = http.post(f"{path}?verbose=true", json=body('"unknown"')).json()
    assert found["is_compatible"] is False
    assert "unknown" in found["messages"][0]
    assert code(http.post(path, json=body('"unknown"'))) == (422, 42201)
    assert code(http.post(f"{path[:-6]}7?verbose=true", json=body(ORDER))) == (404, 40402)


def test_what_a_soft_deleted_schema_refers_to_is_not_deleted_for_good(http: httpx.Client) -> None:
    """Records may still have the id of the deleted schema."""
    http.post("/subjects/base/versions", json=body(ORDER)).raise_for_status()
    reference = {"name": "Order", "subject": "base", "version": 1}
    user = record({"name": "order", "type": "Order"}, name="User")
    http.post("/subjects/user/versions", json=body(user, references=[reference])).raise_for_status()
    assert code(http.delete("/subjects/base/versions/1")) == (422, 42206)
    assert code(http.delete("/subjects/base")) == (422, 42206)
    http.delete("/subjects/user/versions/1").raise_for_status()
    path = "/subjects/base/versions/1/referencedby"
    assert (http.get(path).json(), http.get(f"{path}?deleted=true").json()) == ([], [2])
    http.delete("/subjects/base").raise_for_status()
    assert code(http.delete("/subjects/base?permanent=true")) == (422, 42206)
    assert code(http.delete("/subjects/base/versions/1?permanent=true")) == (422, 42206)
    http.delete("/subjects/user?permanent=true").raise_for_status()
    assert http.delete("/subjects/base?permanent=true").json() == [1]


def test_a_subject_whose_versions_refer_to_each_other_is_deleted(http: httpx.Client) -> None:
    http.put("/config/s", json={"compatibility": "NONE"}).raise_for_status()
    http.post("/subjects/s/versions", json=body(ORDER)).raise_for_status()
    reference = {"name": "Order", "subject": "s", "version": 1}
    text = record({"name": "order", "type": "Order"}, name="User")
    http.post("/subjects/s/versions", json=body(text, references=[reference])).raise_for_status()
    assert code(http.delete("/subjects/s/versions/1")) == (422, 42206)
    assert http.delete("/subjects/s").json() == [1, 2]
    assert http.delete("/subjects/s?permanent=true").json() == [1, 2]


def test_probes_get_a_response_whatever_they_accept(http: httpx.Client) -> None:
    for accept in ("text/html", "text/plain"):
        headers = {"Accept": accept}
        assert http.get("/", headers=headers).json() == {}
        assert http.get("/master_available", headers=headers).json() == {"master_available": True}


def test_head_is_get_without_a_body(http: httpx.Client) -> None:
    http.post("/subjects/s/versions", json=body(ORDER)).raise_for_status()
    for path in ("/subjects", "/schemas/ids/1", "/config"):
        response = http.head(path)
        assert (response.status_code, response.content) == (200, b"")
        assert response.headers["content-length"] == http.get(path).headers["content-length"]
    assert http.head("/subjects/none/versions").status_code == 404


def test_a_content_type_is_negotiated(http: httpx.Client) -> None:
    response = http.get("/subjects", headers={"Accept": "application/json"})
    assert response.headers["content-type"] == "application/json"
    response = http.get("/subjects", headers={"Accept": "text/html"})
    assert code(response) == (406, 406)
    response = http.put("/config", content="{}", headers={"Content-Type": "text/html"})
    assert code(response) == (415, 415)


def test_a_body_and_a_schema_are_bounded(open_registry: OpenRegistry) -> None:
    registry = open_registry(limits=RegistryLimits(schema_bytes_max=1_000))
    with served(registry) as url:
        response = httpx.post(f"{url}/subjects/s/versions", json=body('"' + "x" * 1_000 + '"'))
        assert code(response) == (422, 42201)
        response = httpx.post(f"{url}/subjects/s/versions", content=b"x" * 1_000_000)
        assert code(response) == (413, 413)


def test_a_body_that_does_not_end_is_rejected_in_time(registry: Registry) -> None:
    with served(registry, settings=GatewaySettings(body_ms_max=100)) as url:
        address = httpx.URL(url)
        with socket.create_connection((address.host, address.port or 0), timeout=60) as client:
            client.sendall(
                b"POST /subjects/s/versions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{"
            )
            head, _, answer = client.recv(10_000).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert json.loads(answer)["error_code"] == 408


def test_bodies_together_are_bounded(registry: Registry) -> None:
    with served(registry, settings=GatewaySettings(bodies_bytes_max=100)) as url:
        response = httpx.post(f"{url}/subjects/s/versions", json=body('"' + "x" * 100 + '"'))
        assert code(response) == (503, 503)
        assert int(response.headers["Retry-After"]) > 0
        assert code(httpx.put(f"{url}/mode", json={"mode": "x"})) == (422, 42204), "they count no longer"


@pytest.mark.parametrize(
    ("origin", "status"), [("https://evil.example", 403), ("{url}", 200), (None, 200)], ids=repr
)
def test_a_page_of_another_site_registers_nothing(url: str, origin: str | None, status: int) -> None:
    """Browsers let every page send a body without a type, and do not ask before."""
    headers = {} if origin is None else {"Origin": origin.format(url=url)}
    response = httpx.post(f"{url}/subjects/s/versions", content=json.dumps(body(ORDER)), headers=headers)
    assert response.status_code == status
    assert httpx.get(f"{url}/subjects").json() == (["s"] if status == 200 else [])


def test_an_import_keeps_ids_and_versions(http: httpx.Client) -> None:
    assert http.put("/mode", json={"mode": "IMPORT"}).json() == {"mode": "IMPORT"}
    http.post("/subjects/s/versions", json=body(ORDER, id=40, version=3)).raise_for_status()
    assert code(http.post("/subjects/s/versions", json=body(WITH_NOTE))) == (422, 42205)
    assert http.put("/mode", json={"mode": "READWRITE"}).status_code == 200
    assert http.get("/subjects/s/versions/3").json()["id"] == 40
    assert http.post("/subjects/s/versions", json=body(WITH_NOTE)).json() == {"id": 41}


def test_concurrent_registrations_of_one_schema_get_one_id(http: httpx.Client) -> None:
    found: list[int] = []

    def register(n: int) -> None:
        response = http.post(f"/subjects/s{n % 2}/versions", json=body(ORDER))
        found.append(response.json()["id"])

    threads = [threading.Thread(target=register, args=[n]) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1] * 12
    assert http.get("/subjects/s0/versions").json() == [1]
