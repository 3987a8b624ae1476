"""The page /docs: it and all that it loads come from the server itself."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import pytest
from fastapi import FastAPI

from headrace.http_docs_page import add_docs_page
from tests.asgi_client import AsgiClient


@pytest.fixture
def client() -> AsgiClient:
    app = FastAPI(title="Something", docs_url=None, redoc_url=None)
    add_docs_page(app)
    return AsgiClient(app)


class References(HTMLParser):
    """What a browser loads for a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [
            value or "" for name, value in attrs if name in ("src", "href", "action", "data", "srcset")
        ]


def test_page_and_all_that_it_loads_come_from_the_same_origin(client: AsgiClient) -> None:
    page = client.get("/docs")
    assert page.status_code == 200
    (document,) = re.findall(r"^\s*url: '([^']*)'", page.text, re.MULTILINE)
    assert "://" not in page.text, "an address in the page, or in its script"
    loaded = [*References(page.text).found, document]
    assert len(loaded) == 4
    for reference in loaded:
        address = urljoin(str(page.url), reference)
        assert urlsplit(address)[:2] == urlsplit(str(page.url))[:2], reference
        response = client.get(address)
        assert response.status_code == 200, reference
        if reference.endswith(".css"):
            assert re.search(r"@import|url\(\s*[\"']?(?!data:|[\"'])", response.text) is None


def test_browser_is_told_to_load_nothing_from_other_hosts(client: AsgiClient) -> None:
    page = client.get("/docs")
    policy = dict(each.strip().split(" ", 1) for each in page.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'self'"
    allowed = {each for sources in policy.values() for each in sources.split()}
    assert allowed == {"'self'", "'unsafe-inline'", "data:"}
    assert re.search(r'"validatorUrl": null', page.text)


def test_files_are_those_of_swagger_ui_and_pages_with_foreign_scripts_are_not_served(
    client: AsgiClient,
) -> None:
    assert "SwaggerUIBundle" in client.get("/docs/files/swagger-ui-bundle.js").text
    missing = (
        "/redoc",
        "/docs/files/",
        "/docs/files/nothing.js",
        "/docs/files/%2e%2e/core.py",
        "/docs/oauth2-redirect",
    )
    assert [client.get(each).status_code for each in missing] == [404] * len(missing)
