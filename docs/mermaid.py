"""Draws the diagrams of the documentation site: npm fetches Mermaid once into the cache, and the site carries it.

MkDocs calls the `on_…` functions (`hooks` in mkdocs.yml). Without npm or a network the site shows the text of each
diagram instead, and the build succeeds.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from headrace.java import cache_folder

VERSION = "11.17.2"
"""The theme is made for Mermaid 11."""

SCRIPT = "assets/mermaid.min.js"
NPM_TIMEOUT_S = 120

# A warning would fail a strict build.
_log = logging.getLogger("mkdocs.hooks.mermaid")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    script = _fetched_script()
    if script is None:
        _log.info("npm could not fetch Mermaid %s: diagrams are shown as text", VERSION)
        return config
    from pymdownx.superfences import fence_code_format

    fence = {"name": "mermaid", "class": "mermaid", "format": fence_code_format}
    config.mdx_configs["pymdownx.superfences"] = {"custom_fences": [fence]}
    # The theme loads Mermaid from a CDN only if no script of the site has defined it.
    config.extra_javascript.append(SCRIPT)
    config.extra["mermaid_script"] = script
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    script = config.extra.get("mermaid_script")
    if script is not None:
        files.append(File.generated(config, SCRIPT, abs_src_path=str(script)))
    return files


def _fetched_script() -> Path | None:
    script = cache_folder() / "mermaid" / f"{VERSION}.min.js"
    npm = shutil.which("npm")
    if not script.exists() and npm is not None:
        _fetch(npm, script)
    return script if script.exists() else None


def _fetch(npm: str, script: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            subprocess.run(
                [npm, "pack", "--silent", f"mermaid@{VERSION}"],
                cwd=folder,
                check=True,
                capture_output=True,
                timeout=NPM_TIMEOUT_S,
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            return
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as package:
            found = package.extractfile("package/dist/mermaid.min.js")
            assert found is not None
            content = found.read()
    script.parent.mkdir(parents=True, exist_ok=True)
    # Renamed into place, so that a build beside this one never sees half of it.
    part = script.with_suffix(".part")
    part.write_bytes(content)
    part.replace(script)
