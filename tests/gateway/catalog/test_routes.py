"""The catalogue over HTTP, and its page in a browser's eyes."""

from __future__ import annotations

import json

from headrace.clock import SystemClock
from headrace.gateway.catalog.routes import catalog_router
from headrace.gateway.catalog.source import CatalogSource
from headrace.gateway.registry.changes import Wanted
from headrace.gateway.registry.registry import Registry
from headrace.kafka.cluster import Cluster
from headrace.schemas.definition import Definition
from tests.gateway.conftest import NewTopic, Serve

HOSTILE = "<script>alert(1)</script>"


def test_the_catalogue_is_json_and_a_page(
    cluster: Cluster, registry: Registry, new_topic: NewTopic, serve: Serve
) -> None:
    topic = new_topic()
    text = json.dumps(
        {"type": "record", "name": "R", "doc": HOSTILE, "fields": [{"name": "id", "type": "long"}]}
    )
    for subject in (f"{topic}-value", HOSTILE):
        registry.register(subject, Wanted(definition=Definition(text=text)), normalize=False)
    gateway = serve(routers=(catalog_router(CatalogSource(cluster, registry, SystemClock())),))

    listed = gateway.get("/catalog", search=topic).json()
    assert [each["name"] for each in listed["event_types"]] == [topic]
    shown = gateway.get("/catalog", name=topic).json()
    assert shown["schemas"][0]["fields"] == [{"path": "id", "type": "long", "required": True}]

    for parameters in ({}, {"search": topic}, {"search": HOSTILE}, {"name": topic}, {"name": HOSTILE}):
        page = gateway.get("/catalog.html", **parameters)
        assert page.status_code == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["content-security-policy"].startswith("default-src 'none'")
        assert HOSTILE not in page.text
    assert topic in gateway.get("/catalog.html").text


def test_an_unknown_name_is_not_found_and_a_long_one_is_rejected(cluster: Cluster, serve: Serve) -> None:
    gateway = serve(routers=(catalog_router(CatalogSource(cluster, None, SystemClock())),))
    for path in ("/catalog", "/catalog.html"):
        assert gateway.get(path, name="no-such-topic\0").status_code == 404
        assert gateway.get(path, name="x" * 1_001).status_code == 400
