"""One POST, and how it fails."""

from __future__ import annotations

import pytest

from headrace.alerts.errors import DeliveryFailed
from headrace.alerts.targets import http_call
from tests.alerts.servers import HttpServer


def test_server_that_hangs_is_given_up_without_its_secrets_in_the_reason(
    http: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_call, "TIMEOUT_S", 0.3)
    http.hangs.set()
    with pytest.raises(DeliveryFailed, match="TimeoutError") as failed:
        http_call.post(http.url.replace("http://", "http://user:secret@") + "?token=secret", b"{}", {})
    assert not failed.value.is_final
    assert "secret" not in failed.value.reason


def test_refused_connection_is_retried() -> None:
    with pytest.raises(DeliveryFailed, match=r"127\.0\.0\.1:1") as failed:
        http_call.post("http://127.0.0.1:1/hook", b"{}", {})
    assert not failed.value.is_final


def test_status_that_means_gone_is_final(http: HttpServer) -> None:
    http.statuses += [404, 404]
    with pytest.raises(DeliveryFailed) as failed:
        http_call.post(http.url, b"{}", {}, gone=frozenset({404}))
    assert failed.value.is_final
