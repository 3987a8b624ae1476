"""What every command that talks to a broker can be told."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated

import typer

from headrace.settings import load, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The `[client]` table of headrace.toml."""

    bootstrap: str = setting(
        "127.0.0.1:9092",
        doc="HOST:PORT of the broker (or several, with commas): Headrace's or Apache Kafka's.",
    )
    timeout_s: int = setting(
        15,
        minimum=1,
        doc="How long a command waits for an answer: longer than a broker's start, shorter than patience.",
    )


Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT",
        help="Broker to talk to. Default: $HEADRACE_BOOTSTRAP, else [client] bootstrap in headrace.toml, "
        "else 127.0.0.1:9092.",
        show_default=False,
    ),
]


def client_settings(bootstrap: str | None) -> ClientSettings:
    """The settings of a command whose `--bootstrap` is this (None: not given)."""
    # The short variable is the one that people and other tools set; HEADRACE_CLIENT_BOOTSTRAP works as well.
    given = bootstrap or os.environ.get("HEADRACE_BOOTSTRAP")
    return load(ClientSettings, section="client", flags={"bootstrap": given})
