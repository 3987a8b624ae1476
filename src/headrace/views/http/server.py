"""The process that serves views over HTTP, until it is stopped."""

from __future__ import annotations

from collections.abc import Callable

from headrace import http_server
from headrace.views.catalog import Views
from headrace.views.errors import BadView
from headrace.views.http.app import FOLLOWERS_MAX, ViewServer, create_app
from headrace.views.http.bounds import REQUESTS_MAX

HEAD_BYTES_MAX = 64 * 1024
"""Of a request line with its headers: the longest condition fits, with every character escaped."""


def serve(
    views: Views, host: str, port: int, *, is_open: bool = False, on_ready: Callable[[str], None] = print
) -> None:
    """Until Ctrl-C or SIGTERM. `is_open` allows an address that other machines reach; there is no authentication.
    Followers never end by themselves, and resume."""
    http_server.serve(
        lambda hosts: create_app(ViewServer(views), hosts=hosts),
        host,
        port,
        is_open=is_open,
        exposes="read all views",
        failure=BadView,
        listen_hint="--listen names another address",
        requests_max=REQUESTS_MAX + 2 * FOLLOWERS_MAX,
        head_bytes_max=HEAD_BYTES_MAX,
        on_ready=on_ready,
    )
