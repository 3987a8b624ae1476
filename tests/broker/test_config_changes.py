"""Changing configs: each resource gets its outcome, and one type of resource is one write."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Mapping
from pathlib import Path

from headrace.broker.client import Client
from headrace.broker.config_changes import DEFINITIONS, alter
from headrace.broker.configs.definitions import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from headrace.broker.dispatch import Call
from headrace.broker.parts import Parts
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from headrace.testing.failing_filesystem import FailingFileSystem
from tests.broker.state_topics import parts_in

LIMIT = "share.delivery.count.limit"


def put(kind: int, name: str, **configs: str) -> AlterConfigsResource:
    added = tuple(
        AlterableConfig(name=config.replace("_", "."), value=value) for config, value in configs.items()
    )
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=added)


def add(resource: AlterConfigsResource, before: Mapping[str, str]) -> dict[str, str]:
    return {**before, **{config.name: config.value or "" for config in resource.configs}}


async def codes(parts: Parts, *wanted: AlterConfigsResource, validate_only: bool = False) -> list[int]:
    client = Client(host="h", port=1, local_host="h", local_port=2)
    call = Call(parts=parts, client=client, version=1, client_id="c")
    request = AlterConfigsRequest(resources=wanted, validate_only=validate_only)
    return [one.error_code for one in await alter(request, add, call)]


def test_resource_that_is_rejected_does_not_keep_others_from_their_change(tmp_path: Path) -> None:
    async def scenario() -> None:
        with parts_in(tmp_path) as parts:
            topic = parts.topics.create("a", 1, {})
            assert await codes(
                parts,
                put(TOPIC, "a", retention_ms="5"),
                put(TOPIC, "a", retention_ms="long"),
                put(TOPIC, "unknown", retention_ms="5"),
                put(GROUP, "g", share_delivery_count_limit="7"),
                put(GROUP, "", share_delivery_count_limit="7"),
                put(BROKER, "9"),
                put(BROKER_LOGGER, "1"),
            ) == [
                ErrorCode.NONE,
                ErrorCode.INVALID_CONFIG,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.NONE,
                ErrorCode.INVALID_REQUEST,
                ErrorCode.INVALID_REQUEST,
                ErrorCode.INVALID_REQUEST,
            ]
            assert topic.configs == {"retention.ms": "5"}
            assert parts.group_configs.of("g") == {LIMIT: "7"}

    asyncio.run(scenario())


def test_later_change_of_the_same_resource_adds_to_the_earlier_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        with parts_in(tmp_path) as parts:
            first = put(GROUP, "g", share_delivery_count_limit="7")
            second = put(GROUP, "g", share_isolation_level="read_committed")
            assert await codes(parts, first, second) == [ErrorCode.NONE] * 2
            assert parts.group_configs.of("g") == {LIMIT: "7", "share.isolation.level": "read_committed"}

    asyncio.run(scenario())


def test_validation_changes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        with parts_in(tmp_path) as parts:
            topic = parts.topics.create("a", 1, {})
            wanted = [put(TOPIC, "a", retention_ms="5"), put(GROUP, "g", share_delivery_count_limit="7")]
            assert await codes(parts, *wanted, validate_only=True) == [ErrorCode.NONE] * 2
            assert (topic.configs, parts.group_configs.of("g")) == ({}, {})

    asyncio.run(scenario())


def test_groups_whose_configs_cannot_be_stored_fail_and_topics_are_changed(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = FailingFileSystem()
        with parts_in(tmp_path, files=files) as parts:
            topic = parts.topics.create("a", 1, {})
            files.fail("write_whole", "*/metadata/group*", error_number=errno.ENOSPC)
            groups = [put(GROUP, name, share_delivery_count_limit="7") for name in ("g", "h")]
            full = ErrorCode.KAFKA_STORAGE_ERROR
            assert await codes(parts, *groups, put(TOPIC, "a", retention_ms="5")) == [
                full,
                full,
                ErrorCode.NONE,
            ]
            assert (parts.group_configs.of("g"), topic.configs) == ({}, {"retention.ms": "5"})

    asyncio.run(scenario())


def test_resources_with_configs_have_definitions() -> None:
    assert DEFINITIONS.keys() == {TOPIC, GROUP, BROKER, CLIENT_METRICS}
    assert DEFINITIONS[GROUP](LIMIT).name == LIMIT
