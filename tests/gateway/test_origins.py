from __future__ import annotations

import pytest
from starlette.requests import HTTPConnection

from headrace.gateway.errors import ForeignOrigin
from headrace.gateway.origins import check_origin
from headrace.gateway.settings import GatewaySettings


def request(origin: str | None) -> HTTPConnection:
    headers = [(b"host", b"127.0.0.1:8082")] + ([] if origin is None else [(b"origin", origin.encode())])
    return HTTPConnection({"type": "http", "headers": headers})


@pytest.mark.parametrize(
    ("origin", "allowed", "is_served"),
    [
        (None, "", True),
        ("http://127.0.0.1:8082", "", True),
        ("http://127.0.0.1:9000", "", False),
        ("null", "", False),
        ("https://shop.example", "", False),
        ("https://shop.example", "https://shop.example", True),
        ("https://shop.example.evil", "https://shop.example", False),
        ("https://shop.example", "*", True),
    ],
)
def test_pages_of_other_sites_are_rejected_unless_they_are_allowed(
    origin: str | None, allowed: str, is_served: bool
) -> None:
    settings = GatewaySettings(cors_origins=allowed)
    if is_served:
        check_origin(request(origin), settings)
    else:
        with pytest.raises(ForeignOrigin):
            check_origin(request(origin), settings)
