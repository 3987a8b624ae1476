"""The OpenAPI description of the registry. test_app sends what it allows, with schemathesis."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from headrace.gateway.registry.negotiation import OFFERED


@pytest.fixture
def operations(http: httpx.Client) -> dict[str, Any]:
    """By method and path."""
    paths: dict[str, dict[str, Any]] = http.get("/openapi.json").json()["paths"]
    return {
        f"{method.upper()} {path}": operation
        for path, methods in paths.items()
        for method, operation in methods.items()
    }


def test_requests_that_need_a_body_show_its_fields(operations: dict[str, Any]) -> None:
    found = {
        name: set(operation["requestBody"]["content"][OFFERED[0]]["schema"]["properties"])
        for name, operation in operations.items()
        if "requestBody" in operation
    }
    schema = {"schema", "schemaType", "references", "metadata", "ruleSet", "id", "version"}
    assert found == {
        "POST /subjects/{subject}": schema,
        "POST /subjects/{subject}/versions": schema,
        "POST /compatibility/subjects/{subject}/versions": schema,
        "POST /compatibility/subjects/{subject}/versions/{version}": schema,
        "PUT /config": {"compatibility"},
        "PUT /config/{subject}": {"compatibility"},
        "PUT /mode": {"mode"},
        "PUT /mode/{subject}": {"mode"},
    }


def test_responses_are_in_the_types_that_are_offered(operations: dict[str, Any]) -> None:
    for operation in operations.values():
        for response in operation["responses"].values():
            assert set(OFFERED) <= set(response["content"])
