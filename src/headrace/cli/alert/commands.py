"""`headrace alert`: notify people of what happens in a stream."""

from __future__ import annotations

from headrace.cli.command import command_group
from headrace.errors import HeadraceError

try:
    from headrace.cli.alert import adding, managing, showing, silences
except ModuleNotFoundError as error:
    raise HeadraceError(
        f"{error.name} is not installed", hint='pip install "headrace[alerts]" for `headrace alert`'
    ) from error

app = command_group("Notify people of what happens in a stream: by mail, webhook, web push and chat.")
app.command()(adding.add)
app.command()(managing.run)
app.command("list")(managing.list_alerts)
app.command("show")(managing.show_alert)
app.command()(showing.status)
app.command()(showing.history)
app.add_typer(silences.app, name="silence")
app.command()(managing.acknowledge)
app.command("test")(managing.send_sample)
app.command()(managing.remove)
app.command()(managing.keys)
