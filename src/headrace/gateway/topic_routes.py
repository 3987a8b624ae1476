"""Routes about topics: those of Confluent's REST proxy v2."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from headrace.gateway.answers import (
    REST_JSON,
    BrokersAnswer,
    OffsetsAnswer,
    PartitionAnswer,
    TopicAnswer,
    as_json,
    media_type_of,
)
from headrace.gateway.produce_routes import PartitionNumber, TopicName
from headrace.gateway.slots import Slots
from headrace.gateway.topics import Topics
from headrace.kafka.cluster import Partition

REST: dict[str, Any] = {"content": {REST_JSON: {}}}


def topic_router(topics: Topics, requests: Slots) -> APIRouter:
    router = APIRouter(tags=["topics"], default_response_class=Response)

    @router.get("/brokers", summary="Ids of the brokers", responses={200: {"model": BrokersAnswer, **REST}})
    async def list_brokers(request: Request) -> Response:
        with requests.slot():
            found = sorted((await topics.metadata()).brokers)
        return as_json({"brokers": found}, media_type=media_type_of(request))

    @router.get("/topics", summary="Names of all topics", responses={200: {"model": list[str], **REST}})
    async def list_topics(request: Request) -> Response:
        with requests.slot():
            await topics.refresh()  # someone who has created a topic looks for it
            found = sorted((await topics.metadata()).topics)
        return as_json(found, media_type=media_type_of(request))

    @router.get("/topics/{topic}", summary="One topic", responses={200: {"model": TopicAnswer, **REST}})
    async def show_topic(topic: TopicName, request: Request) -> Response:
        with requests.slot():
            partitions = await _partitions(topics, topic)
            configs = await topics.run(lambda: topics.cluster.configs("topic", topic))
        found = {
            "name": topic,
            "configs": {name: entry.value for name, entry in configs.items()},
            "partitions": partitions,
        }
        return as_json(found, media_type=media_type_of(request))

    @router.get(
        "/topics/{topic}/partitions",
        summary="The partitions of a topic",
        responses={200: {"model": list[PartitionAnswer], **REST}},
    )
    async def list_partitions(topic: TopicName, request: Request) -> Response:
        with requests.slot():
            return as_json(await _partitions(topics, topic), media_type=media_type_of(request))

    @router.get(
        "/topics/{topic}/partitions/{partition}",
        summary="One partition",
        responses={200: {"model": PartitionAnswer, **REST}},
    )
    async def show_partition(topic: TopicName, partition: PartitionNumber, request: Request) -> Response:
        with requests.slot():
            await topics.check_partition(topic, partition)
            found = (await _partitions(topics, topic))[partition]
        return as_json(found, media_type=media_type_of(request))

    @router.get(
        "/topics/{topic}/partitions/{partition}/offsets",
        summary="The first offset of a partition, and the next after its last",
        responses={200: {"model": OffsetsAnswer, **REST}},
    )
    async def show_offsets(topic: TopicName, partition: PartitionNumber, request: Request) -> Response:
        with requests.slot():
            await topics.check_partition(topic, partition)
            place = Partition(topic, partition)
            first, end = await topics.run(
                lambda: (topics.cluster.earliest([place])[place], topics.cluster.latest([place])[place])
            )
        return as_json({"beginning_offset": first, "end_offset": end}, media_type=media_type_of(request))

    return router


async def _partitions(topics: Topics, topic: str) -> list[dict[str, Any]]:
    await topics.partitions(topic)
    partitions = (await topics.metadata()).topics[topic].partitions
    return [
        {
            "partition": number,
            "leader": each.leader,
            "replicas": [
                {"broker": replica, "leader": replica == each.leader, "in_sync": replica in each.isrs}
                for replica in each.replicas
            ],
        }
        for number, each in sorted(partitions.items())
    ]
