"""`headrace gateway`, as a process of its own."""

from __future__ import annotations

import httpx
import pytest

from tests.cli.conftest import Headrace, next_line, started

pytestmark = pytest.mark.timeout(120)

READY = "headrace gateway ready at "


def test_topics_are_served_until_it_is_stopped(environment: dict[str, str], topic: str) -> None:
    with started("gateway", "--listen", "127.0.0.1:0", environment=environment) as process:
        address = next_line(process).removeprefix(READY).strip()
        written = httpx.post(f"{address}/topics/{topic}", json={"a": 1}, timeout=60)
        assert written.status_code == 200
        (record,) = httpx.get(f"{address}/topics/{topic}/records", timeout=60).json()["records"]
        assert record["value"] == {"a": 1}


def test_settings_come_from_options(environment: dict[str, str], topic: str) -> None:
    options = (
        "--listen",
        "127.0.0.1:0",
        "--set",
        "body_bytes_max=10",
        "--cors-origin",
        "https://shop.example",
    )
    with started("gateway", *options, environment=environment) as process:
        address = next_line(process).removeprefix(READY).strip()
        rejected = httpx.post(f"{address}/topics/{topic}", json={"a": "x" * 20}, timeout=60)
        assert rejected.status_code == 413
        page = httpx.get(f"{address}/topics", headers={"Origin": "https://shop.example"}, timeout=60)
        assert page.headers["access-control-allow-origin"] == "https://shop.example"


def test_wrong_start_is_an_error(headrace: Headrace) -> None:
    assert "--insecure" in headrace("gateway", "--listen", "0.0.0.0:0", code=1).err
    assert "is unknown" in headrace("gateway", "--set", "ports=1", code=1).err
    assert "is too small" in headrace("gateway", "--set", "records_max=0", code=1).err
