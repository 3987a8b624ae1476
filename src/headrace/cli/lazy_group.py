"""A group of commands that are imported when they are called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar, cast

import typer
from typer.core import TyperGroup


class LazyGroup(TyperGroup):
    """A subclass has the module of each command, in the order in which a new user needs them."""

    modules: ClassVar[Mapping[str, str]]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # A mistyped name is compared with these.
        self.commands.update(dict.fromkeys(self.modules, cast("Any", None)))

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.modules)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.modules:
            return None
        if self.commands[cmd_name] is None:
            module = importlib.import_module(self.modules[cmd_name])
            self.commands[cmd_name] = typer.main.get_command(module.app)
        return self.commands[cmd_name]
