"""`headrace edge`: bring events in from other protocols."""

from __future__ import annotations

from headrace.cli.command import command_group
from headrace.cli.edge.files import files
from headrace.cli.edge.statsd import statsd
from headrace.cli.edge.tcp import tcp

app = command_group("Bring events in from other protocols. Every edge counts what it loses.")
app.command()(files)
app.command()(statsd)
app.command()(tcp)
