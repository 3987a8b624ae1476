"""`headrace catalog` on a real broker."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.gateway.registry.changes import Wanted
from headrace.gateway.registry.registry import Registry
from headrace.schemas.definition import Definition
from headrace.testing.ports import free_port
from tests.cli.conftest import Headrace
from tests.gateway.registry.serving import running_registry

TEXT = (
    '{"type": "record", "name": "Order", "doc": "paid \\u001b[2J", "fields": [{"name": "id", "type": "long"},'
    ' {"name": "note", "type": "string", "default": "-", "doc": "of the shop"}]}'
)


@pytest.fixture
def subject(numbers: str, bootstrap: str, admin: AdminClient) -> Iterator[str]:
    """A topic with a schema, an owner and a group."""
    registry = Registry.open(bootstrap)
    extra = {"metadata": {"properties": {"owner": f"team-{numbers}"}}}
    name = f"{numbers}-value"
    registry.register(name, Wanted(definition=Definition(text=TEXT), extra=extra), normalize=False)
    committed = ConsumerGroupTopicPartitions(f"{numbers}-billing", [TopicPartition(numbers, 0, 1)])
    admin.alter_consumer_group_offsets([committed])[committed.group_id].result(timeout=60)
    yield name
    registry.delete_subject(name, permanent=False)
    registry.close()


def test_event_types_are_listed_with_owner_and_readers(
    headrace: Headrace, numbers: str, subject: str
) -> None:
    listed = headrace("catalog", "--search", f"team-{numbers}").out
    assert all(
        each in listed for each in (numbers, "value AVRO v1", f"team-{numbers}", f"group {numbers}-billing")
    )
    found = json.loads(headrace("catalog", "--search", f"team-{numbers}", "--format", "json").out)
    (event_type,) = found["event_types"]
    assert event_type["schemas"][0]["subject"] == subject
    assert event_type["read_by"] == [{"kind": "group", "name": f"{numbers}-billing"}]


def test_an_event_type_is_shown_with_its_fields(headrace: Headrace, numbers: str, subject: str) -> None:
    shown = headrace("catalog", numbers).out
    assert "\x1b[2J" not in shown
    assert "paid \\x1b[2J" in shown
    assert "of the shop" in shown
    (event_type,) = json.loads(headrace("catalog", numbers, "--format", "json").out)["event_types"]
    assert event_type["schemas"][0]["fields"] == [
        {"path": "id", "type": "long", "required": True},
        {"path": "note", "type": "string", "default": '"-"', "doc": "of the shop"},
    ]
    assert subject in shown


def test_webhooks_in_and_alerts_of_the_data_folder_are_shown(
    headrace: Headrace, numbers: str, tmp_path: Path
) -> None:
    folder = ["--data-dir", str(tmp_path)]
    headrace("webhook", "in", "add", "github", "--topic", numbers, "--generate-secret", *folder)
    to = ["--when", "level = 'ERROR'", "--to", "https://ops.example/hook"]
    headrace("alert", "add", "errors", "--topic", numbers, *to, *folder)
    shown = headrace("catalog", "--search", numbers, *folder).out
    assert "webhook in github" in shown
    assert "alert errors" in shown


def test_an_unknown_name_is_an_error(headrace: Headrace) -> None:
    name = f"none-{uuid.uuid4().hex}"
    assert f"there is no topic {name}" in headrace("catalog", name, code=1).err
    assert "no event types" in headrace("catalog", "--search", name).out


@pytest.mark.parametrize("is_option", [True, False], ids=["option", "variable"])
def test_schemas_of_another_registry_are_shown(
    headrace: Headrace, bootstrap: str, numbers: str, environment: dict[str, str], is_option: bool
) -> None:
    with running_registry(bootstrap) as url:
        body = {"schema": TEXT, "metadata": {"properties": {"owner": f"owner-{numbers}"}}}
        httpx.post(f"{url}/subjects/{numbers}-value/versions", json=body).raise_for_status()
        options = ["--registry", url] if is_option else []
        if not is_option:
            environment["HEADRACE_REGISTRY"] = url
        shown = headrace("catalog", numbers, *options).out
    assert f"owner-{numbers}" in shown
    assert "of the shop" in shown


def test_another_registry_that_is_unavailable_is_a_problem_and_the_rest_is_there(
    headrace: Headrace, numbers: str
) -> None:
    shown = headrace("catalog", "--search", numbers, "--registry", f"http://127.0.0.1:{free_port()}")
    assert "schemas are missing" in shown.err
    assert numbers in shown.out
