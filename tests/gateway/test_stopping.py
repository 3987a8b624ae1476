"""What clients get that wait while the gateway is stopped."""

from __future__ import annotations

import threading
from pathlib import Path

import httpx
import pytest

from headrace.kafka.cluster import Cluster
from tests.compatibility.gateway_process import GatewayProcess

pytestmark = pytest.mark.timeout(120)


class Waiting(threading.Thread):
    """A request that gets no response before the gateway stops."""

    def __init__(self, method: str, url: str) -> None:
        super().__init__()
        self._method, self._url = method, url
        self.response: httpx.Response | None = None

    def run(self) -> None:
        self.response = httpx.request(self._method, self._url, timeout=60)


def test_waiting_requests_get_503_and_streams_end_without_a_trace(
    bootstrap: str, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with GatewayProcess(bootstrap, log=log) as gateway:
        address = f"{gateway.url}/topics/{topic}"
        waiting = [
            Waiting("GET", f"{address}/records?wait=50s"),
            Waiting("POST", f"{gateway.url}/queues/{topic}/receive?group={topic}&wait=50s"),
        ]
        for each in waiting:
            each.start()
        with httpx.stream("GET", f"{address}/stream", timeout=60) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("retry: ")
            gateway.stop()
            with pytest.raises(httpx.HTTPError):
                list(lines)
        for each in waiting:
            each.join()
            assert each.response is not None
            assert (each.response.status_code, "Retry-After" in each.response.headers) == (503, True)
    assert "Traceback" not in log.read_text()
