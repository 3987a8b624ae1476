"""The application as a whole: whom it serves, and how it describes itself."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from fastapi import APIRouter

from headrace.clock import SystemClock
from headrace.edges.settings import EdgeSettings
from headrace.gateway.catalog.routes import catalog_router
from headrace.gateway.catalog.source import CatalogSource
from headrace.gateway.registry.registry import Registry
from headrace.kafka.cluster import Cluster
from tests.gateway.conftest import Serve, Serving
from tests.webhooks.incoming.receiving import stored
from tests.webhooks.incoming.sending import source

pytestmark = pytest.mark.timeout(120)


def test_name_of_another_host_is_rejected(gateway: Serving) -> None:
    for path in ("/topics", "/docs", "/stream?topics=a"):
        response = gateway.client.get(path, headers={"Host": "evil.example"})
        assert (response.status_code, response.json()["message"]) == (403, "the header Host is not served")


def preflight(gateway: Serving, origin: str) -> str | None:
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-any",
    }
    found: str | None = gateway.client.options("/topics/t", headers=headers).headers.get(
        "access-control-allow-origin"
    )
    return found


def test_pages_of_other_sites_may_not_use_it_unless_they_are_allowed(serve: Serve, gateway: Serving) -> None:
    assert preflight(gateway, "https://shop.example") is None
    allowing = serve(cors_origins="https://shop.example")
    assert preflight(allowing, "https://shop.example") == "https://shop.example"
    assert preflight(allowing, "https://evil.example") is None


def test_routers_of_other_parts_are_served_in_the_same_way(serve: Serve) -> None:
    router = APIRouter()

    @router.get("/subjects")
    async def subjects() -> list[str]:
        return ["a"]

    gateway = serve(routers=(router,))
    assert gateway.get("/subjects").json() == ["a"]
    assert "/subjects" in gateway.get("/openapi.json").json()["paths"]


def test_description_has_every_route_and_every_content_type(gateway: Serving) -> None:
    paths: dict[str, Any] = gateway.get("/openapi.json").json()["paths"]
    assert set(paths) == {
        "/queues/{topic}/accept",
        "/queues/{topic}/receive",
        "/queues/{topic}/reject",
        "/queues/{topic}/release",
        "/brokers",
        "/stream",
        "/topics",
        "/topics/{topic}",
        "/topics/{topic}/partitions",
        "/topics/{topic}/partitions/{partition}",
        "/topics/{topic}/partitions/{partition}/offsets",
        "/topics/{topic}/records",
        "/topics/{topic}/stream",
    }
    assert len(paths["/topics/{topic}"]["post"]["requestBody"]["content"]) == 6
    names = {each["name"] for each in paths["/topics/{topic}/records"]["get"]["parameters"]}
    assert names == {
        "topic",
        "partition",
        "offset",
        "position",
        "from",
        "limit",
        "max_bytes",
        "wait",
        "format",
    }


def test_page_with_the_documentation_is_served(gateway: Serving) -> None:
    assert "SwaggerUIBundle" in gateway.get("/docs").text


def test_requests_beyond_the_bound_are_told_to_come_back(serve: Serve, topic: str) -> None:
    gateway = serve(requests_max=1, subscribers_max=1)
    statuses: list[int] = []
    threads = [
        threading.Thread(
            target=lambda: statuses.append(gateway.get(f"/topics/{topic}/records?limit=1").status_code)
        )
        for _ in range(20)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert set(statuses) <= {200, 503}
    assert 503 in statuses
    assert gateway.get(f"/topics/{topic}/records").status_code == 200


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("of_registry", "examples"), [(False, 50), (True, 15)], ids=["gateway", "registry"])
def test_every_request_that_the_description_allows_gets_a_response_that_it_has(
    serve: Serve,
    bootstrap: str,
    cluster: Cluster,
    topic: str,
    tmp_path: Path,
    of_registry: bool,
    examples: int,
) -> None:
    stored(tmp_path, source("none", name="0", topic=topic))
    with contextlib.closing(Registry.open(bootstrap, topic=f"_schemas-{topic}")) as registry:
        catalog = catalog_router(CatalogSource(cluster, registry, SystemClock()))
        edge = EdgeSettings(data_dir=tmp_path)
        gateway = serve(
            produce_ms_max=5_000, wait_ms_max=100, edge=edge, registry=registry, routers=(catalog,)
        )
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{gateway.url}/openapi.json"]
        command += ["--phases", "coverage,fuzzing", "--max-examples", str(examples)]
        # Streams do not end. Which start of a read excludes another one can't be described, and Starlette's Allow has
        # the method of one route.
        command += [
            "--generation-deterministic",
            "--exclude-path-regex",
            "stream",
            "--include-tag" if of_registry else "--exclude-tag",
            "schema registry",
            "--exclude-checks",
            "positive_data_acceptance,allow_header_conformance",
        ]
        ran = subprocess.run(
            [*command, "--no-color"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout[-5_000:] + ran.stderr[-1_000:]
        assert f"Tested: {operations_of(gateway, of_registry=of_registry)}" in ran.stdout
        assert gateway.get(f"/topics/{topic}").status_code == 200


def operations_of(gateway: Serving, *, of_registry: bool) -> int:
    """Of the description, without streams."""
    paths: dict[str, Any] = gateway.get("/openapi.json").json()["paths"]
    return sum(
        ("schema registry" in operation["tags"]) == of_registry
        for path, methods in paths.items()
        if "stream" not in path
        for operation in methods.values()
    )


def test_unknown_path_and_method_are_errors_in_the_same_form(gateway: Serving) -> None:
    for response, status in ((gateway.get("/topic"), 404), (gateway.client.delete("/topics"), 405)):
        assert (response.status_code, response.json()["error_code"]) == (status, status)
        assert response.json()["hint"]
