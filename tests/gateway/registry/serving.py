"""A registry over HTTP, in this process."""

from __future__ import annotations

import contextlib
import socket
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import uvicorn
from fastapi import FastAPI

from headrace.gateway.registry.registry import Registry
from headrace.gateway.registry.routes import create_router


@contextlib.contextmanager
def served(registry: Registry, *, port: int = 0, **options: Any) -> Iterator[str]:
    """The address of a server of this registry."""
    app = FastAPI()
    app.include_router(create_router(registry, **options))
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", http="h11", access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@contextlib.contextmanager
def running_registry(bootstrap: str) -> Iterator[str]:
    """The address of a registry on a topic of its own."""
    registry = Registry.open(bootstrap, topic=f"_schemas-{uuid.uuid4().hex[:12]}")
    try:
        with served(registry) as url:
            yield url
    finally:
        registry.close()
