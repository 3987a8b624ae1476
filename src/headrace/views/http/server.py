"""The process that serves views over HTTP, until it is stopped."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable

import uvicorn

from headrace.views.catalog import Views
from headrace.views.errors import BadView
from headrace.views.http.app import FOLLOWERS_MAX, ViewServer, create_app
from headrace.views.http.bounds import REQUESTS_MAX

HEAD_BYTES_MAX = 64 * 1024
"""Of a request line with its headers: the longest condition fits, with every character escaped."""

STOP_S = 1
"""For requests in flight, when the server is stopped. Followers never end by themselves, and resume."""

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address; a name must resolve to loopback addresses only."""
    try:
        found = {ipaddress.ip_address(info[4][0]) for info in socket.getaddrinfo(host, None)}
    except (OSError, ValueError):
        return False
    return bool(found) and all(each.is_loopback for each in found)


def serve(
    views: Views, host: str, port: int, *, is_open: bool = False, on_ready: Callable[[str], None] = print
) -> None:
    """Until Ctrl-C or SIGTERM. `is_open` allows an address that other machines reach; there is no authentication."""
    loopback = is_loopback(host)
    if not loopback and not is_open:
        raise BadView(
            f"{host or 'an empty host'} is not a loopback address: every machine that reaches it could read all views",
            hint="listen on 127.0.0.1, with a proxy that authenticates in front of it; or allow it with --insecure",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise BadView(
                f"can't listen on {host}:{port}: {error.strerror}", hint="--listen names another address"
            ) from error
        listener.listen()
        # A proxy in front sends its own name; only a browser on this machine can be tricked into another.
        app = create_app(ViewServer(views), hosts=LOOPBACK_NAMES if loopback else None)
        config = uvicorn.Config(
            app,
            access_log=False,
            log_level="warning",
            limit_concurrency=REQUESTS_MAX + 2 * FOLLOWERS_MAX,
            timeout_graceful_shutdown=STOP_S,
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
            http="h11",
        )
        shown = f"[{host}]" if ":" in host else host
        on_ready(f"http://{shown}:{listener.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[listener])
