"""Clients of registries in Go and in JavaScript, and the settings of Confluent's Python serializers."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    Metadata,
    MetadataProperties,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    record_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

from headrace.java import cache_folder

PROGRAMS = Path(__file__).parent / "programs"
INSTALL_TIMEOUT_S = 240
RUN_TIMEOUT_S = 60

FRANZ_GO = "v1.3.0"
KAFKAJS = "4.1.0"

pytestmark = pytest.mark.timeout(INSTALL_TIMEOUT_S + RUN_TIMEOUT_S)

VALUE = SerializationContext("orders", MessageField.VALUE)
ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
WITH_NOTE = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string", "default": "none"}],
    }
)


def emitted(command: list[str], folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {each["name"]: each["value"] for each in lines}


@functools.cache
def go_program() -> Path:
    """Compiled once, in Headrace's cache."""
    if shutil.which("go") is None:
        pytest.skip("franz-go's client is not tested: Go is not installed")
    folder = cache_folder() / "registry-clients" / f"franz-go-{FRANZ_GO}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "go.mod").write_text(
        f"module clients\ngo 1.22\nrequire github.com/twmb/franz-go/pkg/sr {FRANZ_GO}\n"
    )
    shutil.copy(PROGRAMS / "main.go", folder)
    program = folder / "clients"
    try:
        subprocess.run(
            ["go", "build", "-o", str(program), "."],
            cwd=folder,
            env={**os.environ, "GOFLAGS": "-mod=mod"},
            check=True,
            capture_output=True,
            timeout=INSTALL_TIMEOUT_S,
        )
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"franz-go's client is not tested: it could not be built: {error}")
    return program


@functools.cache
def node_folder() -> Path:
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("kafkajs' client is not tested: Node.js or npm is not installed")
    folder = cache_folder() / "registry-clients" / f"kafkajs-{KAFKAJS}"
    if not (folder / "node_modules" / "@kafkajs").exists():
        folder.mkdir(parents=True, exist_ok=True)
        options = ("--no-audit", "--no-fund", "--ignore-scripts", "--silent", "--prefix", str(folder))
        try:
            subprocess.run(
                ["npm", "install", *options, f"@kafkajs/confluent-schema-registry@{KAFKAJS}"],
                check=True,
                capture_output=True,
                timeout=INSTALL_TIMEOUT_S,
            )
        except (subprocess.SubprocessError, OSError) as error:
            pytest.skip(f"kafkajs' client is not tested: npm could not install it: {error}")
    shutil.copy(PROGRAMS / "main.mjs", folder)
    return folder


def test_franz_gos_client_works_unchanged(url: str) -> None:
    program = go_program()
    found = emitted([str(program), url], program.parent)
    assert sorted(found["types"]) == ["AVRO", "JSON", "PROTOBUF"]
    assert found["created"] == ["go/orders-value", 1, 1]
    assert (found["compatible"], found["incompatible"]) == (False, 409)
    assert (found["second"], found["versions"], found["found"]) == ([2, 2], [1, 2], 1)
    assert found["references"] == [{"name": "Order", "subject": "go/orders-value", "version": 2}]
    assert found["referrers"] == ["go/carts-value"]
    assert (found["level"], found["reset"]) == ("FULL_TRANSITIVE", "FULL_TRANSITIVE")
    assert found["serde"] == [1, '{"id":7}']
    assert (found["deleted"], found["deleted for good"], found["missing"]) == ([1], [1], 40401)
    assert found["subjects"] == ["go/orders-value"]


def test_kafkajs_client_works_unchanged(url: str) -> None:
    folder = node_folder()
    found = emitted(["node", "main.mjs", url], folder)
    assert found["avro"] == [1, [0, 0, 0, 0, 1, 14], {"id": 7}]
    assert (found["latest"], found["by schema"]) == (1, 1)
    assert found["json"] == {"id": 8}
    assert found["protobuf"] == {"id": 9, "price": {"cents": 250}}
    assert found["incompatible"] == 409


# Settings of Confluent's serializers


@pytest.fixture
def client(url: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": url}) as client:
        yield client


def test_a_serializer_that_may_not_register_uses_what_is_there(client: SchemaRegistryClient) -> None:
    options = {"auto.register.schemas": False}
    with pytest.raises(SchemaRegistryError, match="40401"):
        AvroSerializer(client, ORDER, conf=options)({"id": 7}, VALUE)
    client.register_schema("orders-value", Schema(ORDER, "AVRO"))
    assert AvroSerializer(client, ORDER, conf=options)({"id": 7}, VALUE) == b"\0\0\0\0\1\x0e"
    with pytest.raises(SchemaRegistryError, match="40403"):
        AvroSerializer(client, WITH_NOTE, conf=options)({"id": 7, "note": ""}, VALUE)


def test_a_serializer_uses_the_latest_version(client: SchemaRegistryClient) -> None:
    client.register_schema("orders-value", Schema(ORDER, "AVRO"))
    client.register_schema("orders-value", Schema(WITH_NOTE, "AVRO"))
    options = {"auto.register.schemas": False, "use.latest.version": True}
    data = AvroSerializer(client, conf=options)({"id": 7, "note": "x"}, VALUE)
    assert data is not None
    assert data[:5] == b"\0\0\0\0\2"
    assert AvroDeserializer(client)(data, VALUE) == {"id": 7, "note": "x"}


def test_a_serializer_uses_the_latest_version_with_its_metadata(client: SchemaRegistryClient) -> None:
    for major, text in (("1", ORDER), ("2", WITH_NOTE)):
        properties = MetadataProperties(properties={"major": major, "owner": "shop"})
        metadata = Metadata(tags=None, properties=properties, sensitive=None)
        client.register_schema("orders-value", Schema(text, "AVRO", metadata=metadata))
    assert client.get_latest_with_metadata("orders-value", {"owner": "shop"}).version == 2
    for major, number in (("1", 1), ("2", 2)):
        options = {"auto.register.schemas": False, "use.latest.with.metadata": {"major": major}}
        data = AvroSerializer(client, conf=options)({"id": 7, "note": "x"}, VALUE)
        assert data is not None
        assert data[:5] == b"\0\0\0\0" + bytes([number])
    for properties_of, code in (({"major": "3"}, "40403"), ({"major": "1", "none": "x"}, "40403")):
        with pytest.raises(SchemaRegistryError, match=code):
            client.get_latest_with_metadata("orders-value", properties_of)
    with pytest.raises(SchemaRegistryError, match="40401"):
        client.get_latest_with_metadata("none", {"major": "1"})


def test_a_serializer_normalizes_its_schema(client: SchemaRegistryClient) -> None:
    client.register_schema("orders-value", Schema(ORDER, "AVRO"), normalize_schemas=True)
    same = json.dumps(
        {"fields": [{"type": {"type": "long"}, "name": "id"}], "name": "Order", "type": "record"}
    )
    data = AvroSerializer(client, same, conf={"normalize.schemas": True})({"id": 7}, VALUE)
    assert data is not None
    assert data[:5] == b"\0\0\0\0\1"
    assert client.get_versions("orders-value") == [1]


def test_a_serializer_names_subjects_by_record_and_uses_references(client: SchemaRegistryClient) -> None:
    client.register_schema("Order", Schema(ORDER, "AVRO"))
    text = json.dumps(
        {
            "type": "record",
            "name": "Cart",
            "fields": [{"name": "orders", "type": {"type": "array", "items": "Order"}}],
        }
    )
    cart = Schema(text, "AVRO", [SchemaReference("Order", "Order", 1)])
    options = {"subject.name.strategy": record_subject_name_strategy}
    data = AvroSerializer(client, cart, conf=options)({"orders": [{"id": 7}]}, VALUE)
    assert data is not None
    assert AvroDeserializer(client)(data, VALUE) == {"orders": [{"id": 7}]}
    assert client.get_subjects() == ["Cart", "Order"]


def test_an_incompatible_json_schema_is_rejected(client: SchemaRegistryClient) -> None:
    text = '{"type": "object", "title": "order", "properties": {"id": {"type": "integer"}}}'
    assert JSONSerializer(text, client)({"id": 7}, VALUE) is not None
    with pytest.raises((SchemaRegistryError, SerializationError), match="409"):
        JSONSerializer(text.replace("integer", "string"), client)({"id": "7"}, VALUE)


def test_metadata_is_kept_and_found(client: SchemaRegistryClient) -> None:
    metadata = Metadata(
        tags=None, properties=MetadataProperties(properties={"owner": "shop"}), sensitive=None
    )
    client.register_schema("orders-value", Schema(ORDER, "AVRO", metadata=metadata))
    found = client.get_latest_version("orders-value").schema
    assert found.metadata is not None
    assert found.metadata.properties is not None
    assert found.metadata.properties.properties == {"owner": "shop"}
