"""`make docs`: the site builds without a warning, is whole, and loads nothing from other hosts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.mermaid import mermaid_errors

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
BUILD_TIMEOUT_S = 300

_LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=\"?([^\s\">]+)")
_DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def build(
    site: Path, config: Path = ROOT / "mkdocs.yml", **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(site)],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", **environment},
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built without npm and with an empty cache, as on a machine without a network."""
    folder = tmp_path_factory.mktemp("site")
    built = build(folder / "site", PATH=str(folder), HEADRACE_CACHE=str(folder / "cache"))
    assert built.returncode == 0, built.stderr
    return folder / "site"


@pytest.mark.timeout(BUILD_TIMEOUT_S)
class TestWithoutNetwork:
    def test_every_page_is_in_the_site_and_nothing_that_is_not_a_page(self, site: Path) -> None:
        built = {each.relative_to(site).with_suffix("") for each in site.rglob("*.html")}

        pages = {each.relative_to(ROOT / "docs").with_suffix("") for each in PAGES}
        examples = {each.relative_to(ROOT).with_suffix("") for each in (ROOT / "examples").rglob("*.py")}
        assert built == pages | examples | {Path("CHANGELOG"), Path("404")}
        assert list(site.rglob("*.py")) == []
        assert (site / "explanation" / "log.svg").exists()
        assert "segment" in (site / "search" / "search_index.json").read_text()

    def test_no_page_loads_anything_from_another_host(self, site: Path) -> None:
        loaded = {link for page in site.rglob("*.html") for link in _LOADED.findall(page.read_text())}

        assert any(link.endswith(".js") for link in loaded)
        assert [link for link in loaded if "//" in link] == []

    def test_reference_of_python_has_the_public_names(self, site: Path) -> None:
        for page, name in {
            "headrace": "headrace.Broker",
            "pipeline": "headrace.pipeline.Job",
            "sinks": "headrace.pipeline.sinks.Table",
            "operators": "headrace.operators.Tumbling",
            "queue": "headrace.queue.Queue.run",
            "testing": "headrace.testing.Feed",
        }.items():
            assert f'id="{name}"' in (site / "reference" / "python" / f"{page}.html").read_text()

    def test_diagram_is_shown_as_text_without_mermaid(self, site: Path) -> None:
        page = (site / "explanation" / "groups.html").read_text()

        assert 'class="mermaid"' not in page
        assert "stateDiagram" in page


@pytest.mark.timeout(BUILD_TIMEOUT_S)
@pytest.mark.parametrize("link", ["[x](missing.md)", "[x](other.md#missing)"])
def test_dead_link_fails_the_build(link: str, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text(f"# One\n\n{link}\n")
    (docs / "other.md").write_text("# Other\n")
    config = (ROOT / "mkdocs.yml").read_text()
    without_nav = config[: config.index("\nnav:")].replace("hooks: ", "# hooks: ")
    (tmp_path / "mkdocs.yml").write_text(without_nav)
    built = build(tmp_path / "site", config=tmp_path / "mkdocs.yml")

    assert built.returncode != 0
    assert "missing" in built.stderr


@pytest.mark.slow
@pytest.mark.timeout(BUILD_TIMEOUT_S)
def test_diagram_is_drawn_by_the_mermaid_of_the_site(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("needs npm")
    built = build(tmp_path / "site")
    assert built.returncode == 0, built.stderr
    if "npm could not fetch Mermaid" in built.stderr:
        pytest.skip("npm could not fetch Mermaid")

    page = (tmp_path / "site" / "explanation" / "groups.html").read_text()
    assert '<pre class="mermaid">' in page
    assert "../assets/mermaid.min.js" in page
    assert (tmp_path / "site" / "assets" / "mermaid.min.js").stat().st_size > 1_000_000


@pytest.mark.slow
@pytest.mark.timeout(BUILD_TIMEOUT_S)
def test_mermaid_itself_parses_the_diagrams_of_the_pages() -> None:
    diagrams = [each for page in PAGES for each in _DIAGRAM.findall(page.read_text())]

    assert len(diagrams) >= 4
    assert mermaid_errors(diagrams) == [None] * len(diagrams)
    assert mermaid_errors(["flowchart LR\n  a[("]) != [None]
