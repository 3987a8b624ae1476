"""`headrace webhook in` and `headrace webhook out`."""

from __future__ import annotations

from headrace.cli.command import command_app
from headrace.cli.lazy_group import LazyGroup

MODULES = {
    "in": "headrace.cli.webhook.incoming",
    "out": "headrace.cli.webhook.outgoing",
}


class Directions(LazyGroup):
    modules = MODULES


app = command_app(cls=Directions, no_args_is_help=True)


@app.callback()
def webhook() -> None:
    """Webhooks: requests of other systems as events, and events as requests to other systems.

    \b
    headrace webhook in add github --topic pushes --secret-stdin
    headrace webhook out add orders --topic orders --to https://shop.example/hook
    """
