from __future__ import annotations

import pytest
from fastapi import Depends, FastAPI

from headrace.http_parameters import UnknownParameter, only_known_parameters
from tests.asgi_client import AsgiClient


@pytest.fixture
def client() -> AsgiClient:
    app = FastAPI(dependencies=[Depends(only_known_parameters)])

    @app.get("/rows")
    def rows(limit: int = 1) -> int:
        return limit

    return AsgiClient(app)


def test_known_parameter_is_passed_on(client: AsgiClient) -> None:
    assert client.get("/rows?limit=3").json() == 3


def test_mistyped_parameter_is_an_error_that_suggests_the_right_one(client: AsgiClient) -> None:
    with pytest.raises(UnknownParameter, match=r"the parameter limits is unknown \(did you mean limit\?\)"):
        client.get("/rows?limits=3")
