"""Requests that browsers let every page send without asking first: WebSockets, and a POST without a body, or with a
body of text or without a type.

The header Origin names the page. For other requests the browser asks, and CORS is closed by default.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from headrace.gateway.errors import ForeignOrigin
from headrace.gateway.settings import GatewaySettings


def check_origin(connection: HTTPConnection, settings: GatewaySettings) -> None:
    """Raises ForeignOrigin if another site's page sends it, unless the settings allow that page."""
    origin = connection.headers.get("origin")
    if origin is None or urlsplit(origin).netloc == connection.headers.get("host"):
        return
    if not {"*", origin} & set(settings.origins):
        raise ForeignOrigin(
            f"pages of {origin[:200]} may not use the gateway", hint="--cors-origin allows them"
        )
