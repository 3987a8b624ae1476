from __future__ import annotations

from headrace.views.http.bounds import REQUESTS_MAX
from tests.views.http.conftest import Serving


def test_request_beyond_the_bound_is_told_to_come_back(serving: Serving) -> None:
    serving.views.load.requests += REQUESTS_MAX
    rejected = serving.get("/views")
    assert (rejected.status_code, rejected.headers["Retry-After"]) == (503, "1")
    serving.views.load.requests -= REQUESTS_MAX
    assert serving.get("/views").status_code == 200
    assert serving.views.load.requests == 0
