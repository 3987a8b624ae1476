"""Secrets from standard input or from a file: an argument would be in the list of processes and in the history."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from headrace.webhooks.errors import BadWebhook
from headrace.webhooks.secrets import SECRET_CHARACTERS_MAX, check_secret

SecretStdin = Annotated[
    bool, typer.Option("--secret-stdin", help="Read the secret from standard input, one line.")
]
SecretFile = Annotated[
    Path | None,
    typer.Option("--secret-file", metavar="FILE", help="Read the secret from a file with one line."),
]


def read_secret(*, stdin: bool, file: Path | None) -> str | None:
    """The secret of `--secret-stdin` or `--secret-file`; None if neither is set."""
    if stdin and file is not None:
        raise typer.BadParameter("it excludes --secret-file", param_hint="--secret-stdin")
    if file is not None:
        return _one_line(_read_file(file))
    if not stdin:
        return None
    if sys.stdin.isatty():
        import getpass

        return _one_line(getpass.getpass("secret: "))
    return _one_line(sys.stdin.read(SECRET_CHARACTERS_MAX + 2))


def _read_file(file: Path) -> str:
    try:
        with file.open(encoding="utf-8") as opened:
            return opened.read(SECRET_CHARACTERS_MAX + 2)
    except (OSError, UnicodeDecodeError) as error:
        raise BadWebhook(
            f"can't read the secret from {file}: {error}", hint="name a text file with one line"
        ) from error


def _one_line(text: str) -> str:
    secret = text.removesuffix("\n").removesuffix("\r")
    check_secret(secret)
    return secret
