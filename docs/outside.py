"""Brings files outside docs/ into the documentation site: each example becomes a page, and so does the changelog.

MkDocs calls the `on_…` functions (`hooks` in mkdocs.yml). In the pages the links to these files are relative, as a Git
host needs them; here they become links to the pages of the site.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
EXAMPLES = {
    path.relative_to(ROOT).with_suffix(".md").as_posix(): path
    for path in sorted((ROOT / "examples").rglob("*.py"))
}
CHANGELOG = "CHANGELOG.md"

_LINK_TO_EXAMPLE = re.compile(r"\]\((?:\.\./)(?P<up>(?:\.\./)*)(?P<path>examples/[\w/]+)\.py\)")
_LINK_TO_CHANGELOG = re.compile(r"\]\((?:\.\./)(?P<up>(?:\.\./)*)CHANGELOG\.md")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    assert config.nav is not None
    config.nav += [{"Examples": list(EXAMPLES)}, {"Changelog": CHANGELOG}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for page, path in EXAMPLES.items():
        name = path.relative_to(ROOT / "examples").as_posix()
        content = f"# {name}\n\n```python\n{path.read_text()}```\n"
        files.append(File.generated(config, page, content=content))
    files.append(File.generated(config, CHANGELOG, abs_src_path=str(ROOT / CHANGELOG)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    markdown = _LINK_TO_EXAMPLE.sub(r"](\g<up>\g<path>.md)", markdown)
    return _LINK_TO_CHANGELOG.sub(r"](\g<up>CHANGELOG.md", markdown)
