"""Options of every command that talks to a broker."""

from __future__ import annotations

from typing import Annotated

import typer

Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT",
        help="Broker to talk to. Default: $HEADRACE_BOOTSTRAP, else [client] bootstrap in headrace.toml, "
        "else 127.0.0.1:9092.",
        show_default=False,
    ),
]
