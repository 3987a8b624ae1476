"""`headrace edge`: bring events in from other protocols, and out to them."""

from __future__ import annotations

from headrace.cli.command import command_group
from headrace.cli.edge import multicast, nng, zeromq
from headrace.cli.edge.files import files
from headrace.cli.edge.statsd import statsd
from headrace.cli.edge.tcp import tcp

app = command_group("Bring events in from other protocols, and out to them. Every edge counts what it loses.")
app.command()(files)
app.command()(statsd)
app.command()(tcp)
app.add_typer(multicast.app, name="multicast")
app.add_typer(zeromq.app, name="zeromq")
app.add_typer(nng.app, name="nng")
