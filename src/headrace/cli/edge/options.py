"""The options that edges share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.completion import complete_topics
from headrace.edges.settings import Policy

Topic = Annotated[
    str, typer.Option("--topic", "-t", help="The topic to write to.", autocompletion=complete_topics)
]
EdgeName = Annotated[
    str | None,
    typer.Option(
        "--name", help="Of the edge: in its metrics, and of its buffer. Default: such as statsd-TOPIC."
    ),
]
Overload = Annotated[
    Policy | None,
    typer.Option(
        help="If events arrive faster than the broker takes them: drop some, buffer on disk, or block. "
        "Default: [edge] overload in headrace.toml, else block."
    ),
]
EdgeDataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", help="Folder of the buffer. Default: [edge] data_dir in headrace.toml, else data."
    ),
]
MetricsPort = Annotated[
    int | None,
    typer.Option("--metrics-port", min=0, max=65535, help="Port of Prometheus metrics at 127.0.0.1."),
]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure", help="Allow an address that other machines reach: senders authenticate nowhere."
    ),
]
