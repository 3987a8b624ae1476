"""The page `/docs`: Swagger UI with files of this machine. FastAPI's own page loads them from other hosts.

The PyPI package `fastapi-offline` has the files. Paths are relative, so the page also works behind a proxy that adds a
prefix.
"""

from __future__ import annotations

from importlib.resources import files

from fastapi import FastAPI, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.staticfiles import StaticFiles

FILES = files("fastapi_offline") / "static"

# FastAPI starts Swagger UI by a script in the page, and Swagger UI styles its elements.
POLICY = "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"
"""The browser enforces it: Swagger UI can't load anything from other hosts, whatever its version does."""


def add_docs_page(app: FastAPI) -> None:
    page = get_swagger_ui_html(
        openapi_url="openapi.json",
        title=app.title,
        swagger_js_url="docs/files/swagger-ui-bundle.js",
        swagger_css_url="docs/files/swagger-ui.css",
        swagger_favicon_url="docs/files/favicon.png",
        # Otherwise Swagger UI sends the address of the document to a validator on another host.
        swagger_ui_parameters={"validatorUrl": None},
    )
    page.headers["Content-Security-Policy"] = POLICY

    async def docs(_request: Request) -> Response:
        return page

    app.add_route("/docs", docs, include_in_schema=False)
    app.mount("/docs/files", StaticFiles(directory=str(FILES)))
