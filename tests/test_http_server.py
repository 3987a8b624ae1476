from __future__ import annotations

import socket

import pytest
from fastapi import FastAPI

from headrace.errors import HeadraceError
from headrace.http_server import serve


def start(host: str, port: int) -> None:
    serve(
        lambda hosts: FastAPI(),
        host,
        port,
        is_open=False,
        exposes="read it",
        failure=HeadraceError,
        listen_hint="choose another",
        requests_max=1,
        on_ready=lambda _: None,
    )


def test_address_that_others_reach_must_be_allowed() -> None:
    with pytest.raises(HeadraceError, match=r"not a loopback address.*could read it.*--insecure"):
        start("0.0.0.0", 0)


def test_address_in_use_is_an_error_with_the_hint() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(HeadraceError, match=r"can't listen on.*choose another"),
    ):
        start("127.0.0.1", taken.getsockname()[1])
