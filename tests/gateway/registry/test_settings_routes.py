from __future__ import annotations

import httpx


def test_a_level_is_set_shown_and_deleted(http: httpx.Client) -> None:
    assert http.put("/config/s", json={"compatibility": "full"}).json() == {"compatibility": "FULL"}
    assert http.get("/config/s").json() == {"compatibilityLevel": "FULL"}
    deleted = {"compatibilityLevel": "FULL", "compatibility": "FULL"}
    assert http.delete("/config/s").json() == deleted
    assert http.get("/config/s").json()["error_code"] == 40408
    assert http.get("/config/s?defaultToGlobal=true").json() == {"compatibilityLevel": "BACKWARD"}
    assert http.delete("/config").json() == {"compatibilityLevel": "BACKWARD", "compatibility": "BACKWARD"}


def test_a_mode_is_set_shown_and_deleted(http: httpx.Client) -> None:
    assert http.put("/mode/s", json={"mode": "readonly"}).json() == {"mode": "READONLY"}
    assert http.get("/mode/s").json() == {"mode": "READONLY"}
    assert http.delete("/mode/s").json() == {"mode": "READONLY"}
    assert http.get("/mode/s?defaultToGlobal=true").json() == {"mode": "READWRITE"}
