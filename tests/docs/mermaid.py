"""Mermaid's own parser, by npm and Node.js: the errors that it reports for a diagram."""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.compatibility.npm import npm_folder
from tests.docs.scripts import load

VERSION: str = load("mermaid").VERSION
# Mermaid sanitizes labels with a library that needs a browser; the syntax does not depend on it.
PARSE = """
import sanitizer from 'dompurify'
Object.assign(sanitizer, { addHook() {}, sanitize: text => text })
const { default: mermaid } = await import('mermaid')
let input = ''
for await (const part of process.stdin) input += part
const errors = []
for (const text of JSON.parse(input))
  errors.push(await mermaid.parse(text).then(() => null, error => error.message))
console.log(JSON.stringify(errors))
"""


def mermaid_errors(diagrams: Sequence[str]) -> list[str | None]:
    """For each diagram the error that Mermaid reports, or None."""
    done = subprocess.run(
        ["node", "parse.mjs"],
        cwd=_installed(),
        input=json.dumps(diagrams),
        capture_output=True,
        text=True,
        check=True,
    )
    errors: list[str | None] = json.loads(done.stdout)
    return errors


@functools.cache
def _installed() -> Path:
    folder = npm_folder("mermaid", VERSION)
    (folder / "parse.mjs").write_text(PARSE)
    return folder
