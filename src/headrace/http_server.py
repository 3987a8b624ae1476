"""The process that serves an application over HTTP, until it is stopped. There is no authentication."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, cast

import uvicorn
from fastapi import FastAPI

from headrace.errors import HeadraceError
from headrace.loopback import LOOPBACK_NAMES, is_loopback

STOP_S = 1
"""For requests in flight, when the server is stopped."""


def serve(
    create_app: Callable[[frozenset[str] | None], FastAPI],
    host: str,
    port: int,
    *,
    is_open: bool,
    exposes: str,
    failure: Callable[..., HeadraceError],
    listen_hint: str,
    requests_max: int | None,
    head_bytes_max: int | None = None,
    protocol: Callable[..., asyncio.Protocol] | None = None,
    websockets: dict[str, Any] | None = None,
    on_ready: Callable[[str], None],
) -> None:
    """Until Ctrl-C or SIGTERM. `is_open` allows an address that other machines reach, which could do what `exposes`
    says. The application gets the names in the header Host that it serves; None stands for all. `protocol` makes the
    connections, in uvicorn's way; `websockets` are uvicorn's options for them, without which there are none."""
    loopback = is_loopback(host)
    if not loopback and not is_open:
        raise failure(
            f"{host or 'an empty host'} is not a loopback address: every machine that reaches it could {exposes}",
            hint="listen on 127.0.0.1, with a proxy that authenticates in front of it; or allow it with --insecure",
        )
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise failure(f"can't listen on {host}:{port}: {error.strerror}", hint=listen_hint) from error
        listener.listen()
        config = uvicorn.Config(
            # A proxy in front sends its own name; only a browser on this machine can be tricked into another.
            create_app(LOOPBACK_NAMES if loopback else None),
            access_log=False,
            log_level="warning",
            proxy_headers=False,  # every client on this machine could write another address into X-Forwarded-For
            limit_concurrency=requests_max,
            timeout_graceful_shutdown=STOP_S,
            h11_max_incomplete_event_size=head_bytes_max,
            http=cast("Any", protocol or "h11"),
            **(websockets or {"ws": "none"}),
        )
        shown = f"[{host}]" if ":" in host else host
        on_ready(f"http://{shown}:{listener.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[listener])
