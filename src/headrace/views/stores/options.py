"""The options of a view's store, as the user wrote them."""

from __future__ import annotations

from headrace.names import did_you_mean
from headrace.views.definition import Definition
from headrace.views.errors import BadView


def column_option(definition: Definition, name: str) -> tuple[str, ...]:
    """Columns with commas between them."""
    return tuple(each.strip() for each in definition.options.get(name, "").split(",") if each.strip())


def check_options(definition: Definition, *known: str, prefix: str = "") -> None:
    """Raise unless the store has all of them; those that begin with the prefix are passed on to a library."""
    for name in definition.options:
        if name not in known and not (prefix and name.startswith(prefix)):
            raise BadView(
                f"view {definition.name}: the store {definition.store} has no option {name!r}",
                hint=did_you_mean(name, known) or f"its options are: {', '.join(known) or 'none'}",
            )
